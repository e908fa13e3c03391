/* Pretend CUDA contexts: one file each in "contexts/" beside the state file.
 *
 * The creator keeps a POSIX write lock on its file. The kernel drops it however the process ends, and F_GETLK
 * names the holder in the reader's own PID namespace, so nobody compares PIDs or start times.
 * "end.NAME" remembers when a context ended, which keeps energy counters from running backwards.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "standin.h"

typedef struct {
    int fd;
    bool own; /* created by this process: probing our own lock would release it */
    pid_t owner;
    bool seen;
} Watch;

static Context pool[MAX_CONTEXTS];
static Watch watches[MAX_CONTEXTS];
static int pool_count;

double monotonic_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void in_folder(char *path, size_t size, const char *prefix, const char *name)
{
    char folder[4096];
    snprintf(folder, sizeof folder, "%s", state_path());
    char *slash = strrchr(folder, '/');
    if (slash)
        *slash = 0;
    snprintf(path, size, "%s/contexts%s%s%s", slash ? folder : ".", name ? "/" : "", prefix,
             name ? name : "");
}

static bool read_context(int fd, Context *context)
{
    char text[512] = {0};
    Activity *a = &context->activity;
    long long mem;
    if (pread(fd, text, sizeof text - 1, 0) <= 0 ||
        sscanf(text, "%95s %u %lf %lld %lf %lf %lf %lf %lf", context->uuid, &context->pid,
               &context->start_s, &mem, &a->util, &a->sm, &a->tensor, &a->dram, &a->extra_mw) != 9)
        return false;
    a->mem_bytes = mem;
    context->end_s = -1;
    return true;
}

static double read_end(const Context *context)
{
    char path[8192], text[64] = {0};
    in_folder(path, sizeof path, "end.", context->name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    double end = -1;
    if (fd >= 0 && read(fd, text, sizeof text - 1) > 0)
        end = strtod(text, NULL);
    if (fd >= 0)
        close(fd);
    return end;
}

/* Whoever sees the end first writes it down; nobody goes back behind what it has reported itself. */
static void write_end(Context *context, double end_s)
{
    char path[8192], text[64];
    in_folder(path, sizeof path, "end.", context->name);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    context->end_s = end_s;
    if (fd < 0) {
        double known = errno == EEXIST ? read_end(context) : -1;
        context->end_s = known > end_s ? known : end_s;
        return;
    }
    int length = snprintf(text, sizeof text, "%.6f\n", end_s);
    (void)!write(fd, text, (size_t)length);
    close(fd);
}

static void learn(const char *name)
{
    for (int i = 0; i < pool_count; i++)
        if (strcmp(pool[i].name, name) == 0) {
            watches[i].seen = true;
            return;
        }
    if (pool_count == MAX_CONTEXTS || strlen(name) >= TEXT)
        return;
    char path[8192];
    in_folder(path, sizeof path, "", name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    Context *context = &pool[pool_count];
    *context = (Context){0};
    if (fd < 0 || !read_context(fd, context)) {
        if (fd >= 0)
            close(fd);
        return;
    }
    memcpy(context->name, name, strlen(name) + 1);
    context->end_s = read_end(context);
    context->alive_s = context->start_s;
    watches[pool_count] = (Watch){.fd = fd, .seen = true};
    pool_count++;
}

static void check_alive(Context *context, Watch *watch)
{
    bool ours = watch->own && watch->owner == getpid();
    if (context->end_s >= 0 || ours || watch->fd < 0)
        return;
    struct flock probe = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    if (fcntl(watch->fd, F_GETLK, &probe) == 0 && probe.l_type != F_UNLCK) {
        if (probe.l_pid > 0)
            context->pid = (unsigned)probe.l_pid;
        return;
    }
    write_end(context, context->alive_s);
    close(watch->fd);
    watch->fd = -1;
}

static void forget(int i)
{
    if (watches[i].fd >= 0)
        close(watches[i].fd);
    pool_count--;
    pool[i] = pool[pool_count];
    watches[i] = watches[pool_count];
}

static void read_folder(void)
{
    char path[8192];
    in_folder(path, sizeof path, "", NULL);
    DIR *folder = opendir(path);
    for (int i = 0; i < pool_count; i++)
        watches[i].seen = false;
    for (struct dirent *entry; folder && (entry = readdir(folder));)
        if (strncmp(entry->d_name, "ctx.", 4) == 0)
            learn(entry->d_name);
    if (folder)
        closedir(folder);
    for (int i = pool_count - 1; i >= 0; i--)
        if (!watches[i].seen)
            forget(i);
}

const Context *pool_scan(int *count, bool fresh)
{
    static struct timespec known;
    static double checked_s;
    char path[8192];
    struct stat info = {0};
    in_folder(path, sizeof path, "", NULL);
    bool exists = stat(path, &info) == 0;
    double now = monotonic_s();
    bool changed = exists && (info.st_mtim.tv_sec != known.tv_sec || info.st_mtim.tv_nsec != known.tv_nsec);
    /* Process lists look afresh; for other calls a kill may go unnoticed for 20 ms, which keeps them cheap. */
    if (fresh || changed || now - checked_s > 0.02 || (!exists && pool_count)) {
        read_folder();
        for (int i = 0; i < pool_count; i++)
            check_alive(&pool[i], &watches[i]);
        known = info.st_mtim;
        checked_s = now;
    }
    for (int i = 0; i < pool_count; i++)
        if (pool[i].end_s < 0)
            pool[i].alive_s = now;
    *count = pool_count;
    return pool;
}

/* The file appears under its final name only when it is complete and locked. */
static int create_file(Context *context)
{
    char path[8192], final[8192], text[512];
    const Activity *a = &context->activity;
    static unsigned sequence;
    snprintf(context->name, TEXT, "ctx.%d.%.6f.%u", (int)getpid(), context->start_s, sequence++);
    in_folder(path, sizeof path, "new.", context->name);
    in_folder(final, sizeof final, "", context->name);
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (fd < 0)
        return -1;
    int length = snprintf(text, sizeof text, "%s %u %.6f %lld %g %g %g %g %g\n", context->uuid,
                          context->pid, context->start_s, (long long)a->mem_bytes, a->util, a->sm,
                          a->tensor, a->dram, a->extra_mw);
    struct flock hold = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    if (write(fd, text, (size_t)length) != length || fcntl(fd, F_SETLK, &hold) != 0 ||
        rename(path, final) != 0) {
        unlink(path);
        close(fd);
        return -1;
    }
    return fd;
}

static double share_of_power(const Activity *a)
{
    double share = 0.0075 * a->sm + 0.0025 * a->tensor;
    return share > 1 ? 1 : share;
}

/* What the context draws above idle; together the living ones never pass the power limit. */
static double extra_power_mw(const Gpu *gpu, const Activity *wanted, const Activity *now)
{
    if (gpu->power_mw == ABSENT || gpu->power_limit_mw <= gpu->power_mw)
        return 0;
    double room = (double)(gpu->power_limit_mw - gpu->power_mw);
    double extra = room * share_of_power(wanted), left = room - now->extra_mw;
    return extra < left ? extra : (left > 0 ? left : 0);
}

/* One creation at a time on this node, each seeing what the one before took. Returns the lock. */
static int lock_folder(void)
{
    char path[8192];
    in_folder(path, sizeof path, "", NULL);
    if (mkdir(path, 01777) == 0)
        (void)!chmod(path, 01777);
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0)
        flock(fd, LOCK_EX);
    return fd;
}

static int create_on(const Gpu *gpu, const Activity *wanted)
{
    Activity now;
    int count;
    pool_scan(&count, true);
    activity_now(gpu, &now);
    int64_t used = (gpu->mem_used_bytes == ABSENT ? 0 : gpu->mem_used_bytes) + now.mem_bytes;
    if (gpu->lost > 0)
        return -GPU_IS_LOST;
    if (gpu->mem_total_bytes != ABSENT && wanted->mem_bytes > gpu->mem_total_bytes - used)
        return -MEMORY;
    if (count == MAX_CONTEXTS)
        return -MEMORY;
    Context context = {.pid = (unsigned)getpid(), .start_s = monotonic_s(), .end_s = -1};
    context.activity = *wanted;
    context.activity.extra_mw = extra_power_mw(gpu, wanted, &now);
    snprintf(context.uuid, TEXT, "%s", gpu->uuid);
    int fd = create_file(&context);
    if (fd < 0)
        return -UNKNOWN;
    pool[pool_count] = context;
    watches[pool_count++] = (Watch){.fd = fd, .own = true, .owner = getpid(), .seen = true};
    return fd;
}

/* The index counts visible GPUs in PCI order. Returns a context id, or minus an NVML error code. */
int standinContextCreateEx(unsigned index, unsigned long long mem_bytes, double util, double sm,
                           double tensor, double dram)
{
    static int slot = -1;
    Call call;
    nvmlReturn_t entered = devices_ready() ? SUCCESS : nvmlInitWithFlags(0);
    if (entered == SUCCESS)
        entered = enter_system(&call, __func__, &slot);
    if (entered != SUCCESS)
        return -entered;
    int gpu = devices_visible((int)index);
    Activity wanted = {.util = util, .sm = sm, .tensor = tensor, .dram = dram};
    wanted.mem_bytes = (int64_t)mem_bytes;
    int folder = lock_folder();
    int made = gpu < 0 ? -INVALID_ARGUMENT : create_on(&call.state->gpus[gpu], &wanted);
    if (folder >= 0)
        close(folder);
    return answer(made);
}

int standinContextCreate(unsigned index, unsigned long long mem_bytes, unsigned sm, unsigned tensor)
{
    return standinContextCreateEx(index, mem_bytes, sm, sm, tensor, sm / 2.0);
}

int standinContextDestroy(int id)
{
    SYSTEM_CALL();
    for (int i = 0; i < pool_count; i++)
        if (watches[i].own && watches[i].owner == getpid() && watches[i].fd == id) {
            write_end(&pool[i], monotonic_s());
            close(id);
            watches[i].fd = -1;
            watches[i].own = false;
            return answer(SUCCESS);
        }
    return answer(NOT_FOUND);
}
