/* The stand-in driver: what its files share. README.md beside this folder describes the state file. */
#ifndef STANDIN_H
#define STANDIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "keys.h"

enum {
    MAX_GPUS = 16,
    MAX_LINKS = 36,
    MAX_MIGS = 8,
    MAX_FIELDS = 64,
    MAX_PROCESSES = 64,
    MAX_RULES = 128,
    MAX_EVENTS = 128,
    MAX_GPM = 477,
    MAX_CONTEXTS = 512,
    TEXT = 96,
};

enum {
    SUCCESS = 0,
    UNINITIALIZED = 1,
    INVALID_ARGUMENT = 2,
    NOT_SUPPORTED = 3,
    NOT_FOUND = 6,
    INSUFFICIENT_SIZE = 7,
    DRIVER_NOT_LOADED = 9,
    TIMEOUT = 10,
    GPU_IS_LOST = 15,
    MEMORY = 20,
    NO_DATA = 21,
    ARGUMENT_VERSION_MISMATCH = 25,
    UNKNOWN = 999,
};

/* A number that the profile does not have; the call then answers NOT_SUPPORTED. */
#define ABSENT INT64_MIN

typedef int nvmlReturn_t;
typedef struct Device *nvmlDevice_t;
struct Device {
    int gpu;
};

typedef struct {
#define NUMBER(name) int64_t name;
    LINK_NUMBERS(NUMBER)
#undef NUMBER
    char remote_pci[TEXT];
} Link;

typedef struct {
#define NUMBER(name) int64_t name;
    MIG_NUMBERS(NUMBER)
#undef NUMBER
#define STRING(name) char name[TEXT];
    MIG_STRINGS(STRING)
#undef STRING
} Mig;

typedef struct {
    unsigned id;
    unsigned scope;
    bool any_scope;
    double value;
    nvmlReturn_t error;
} Override;

enum { NO_INSTANCE = 0xFFFFFFFF };

typedef struct {
    unsigned pid;
    int64_t mem_bytes;
    unsigned sm_percent;
    unsigned mem_percent;
    char kind; /* C compute, G graphics, M a client of MPS */
    unsigned gpu_instance, compute_instance; /* of MIG, else NO_INSTANCE */
    unsigned encoder_percent, decoder_percent;
} Process;

typedef struct {
#define NUMBER(name) int64_t name;
    GPU_NUMBERS(NUMBER)
#undef NUMBER
#define STRING(name) char name[TEXT];
    GPU_STRINGS(STRING)
#undef STRING
    Link links[MAX_LINKS];
    Mig migs[MAX_MIGS];
    Override fields[MAX_FIELDS];
    int field_count;
    Override gpm[MAX_FIELDS];
    int gpm_count;
    Process processes[MAX_PROCESSES];
    int process_count;
    int64_t topology[MAX_GPUS];
} Gpu;

enum RuleKind { RULE_ERROR, RULE_LATENCY, RULE_HANG, RULE_GARBAGE };

/* One injection: function "*" means every function, gpu -1 every GPU. */
typedef struct {
    enum RuleKind kind;
    char function[TEXT];
    int gpu;
    int64_t value;
    int64_t calls; /* that matched in this process since the file was last read */
} Rule;

typedef struct {
    uint64_t sequence;
    int gpu;
    uint64_t type;
    uint64_t data;
} Event;

typedef struct {
#define NUMBER(name) int64_t name;
    GLOBAL_NUMBERS(NUMBER)
#undef NUMBER
#define STRING(name) char name[4096];
    GLOBAL_STRINGS(STRING)
#undef STRING
    Gpu gpus[MAX_GPUS];
    Rule rules[MAX_RULES];
    int rule_count;
    Event events[MAX_EVENTS];
    int event_count;
} State;

/* What one call knows about itself, from enter() until answer(). */
typedef struct {
    const State *state;
    const Gpu *gpu; /* NULL in a call that names no device */
    const Mig *mig; /* the instance that the handle names, NULL for a whole GPU */
    int gpu_index;  /* place in the state file, -1 without a device */
    const char *function;
    bool has_garbage;
    int64_t garbage;
} Call;

/* state.c */
const char *state_path(void);
State *state_refresh(void); /* lock held; NULL when there is no state file */

/* calls.c: enter() returns with the lock held unless it fails; answer() gives the lock back. */
nvmlReturn_t enter_system(Call *call, const char *function, int *slot);
nvmlReturn_t enter_device(Call *call, const char *function, int *slot, const void *device);
nvmlReturn_t answer(nvmlReturn_t result);
nvmlReturn_t answer_number(const Call *call, unsigned *out, int64_t value);
nvmlReturn_t answer_text(const char *text, char *out, unsigned length);
nvmlReturn_t pass_init(const char *function, int *slot);
void standin_lock(void);
void standin_unlock(void);

#define SYSTEM_CALL()                                                     \
    static int slot_ = -1;                                                \
    Call call;                                                            \
    nvmlReturn_t entered_ = enter_system(&call, __func__, &slot_);        \
    if (entered_ != SUCCESS)                                              \
    return entered_

#define DEVICE_CALL(device)                                               \
    static int slot_ = -1;                                                \
    Call call;                                                            \
    nvmlReturn_t entered_ = enter_device(&call, __func__, &slot_, device); \
    if (entered_ != SUCCESS)                                              \
        return entered_;                                                  \
    const Gpu *gpu = call.gpu;                                            \
    (void)gpu

/* counts.c */
int counts_slot(const char *function);
void counts_add(const State *state, int slot, int gpu);

/* devices.c */
nvmlReturn_t nvmlInitWithFlags(unsigned flags);
bool devices_ready(void);
int devices_index(const void *handle); /* place in the state file, -1 for no handle of ours */
nvmlDevice_t devices_handle(int gpu);
int devices_visible_count(void);
int devices_visible(int index);          /* place in the state file of the index-th visible GPU, -1 */
int devices_position(int gpu);           /* the reverse: its index among the visible ones, -1 */
bool devices_same_bus(const char *a, const char *b);
void devices_fill_pci(const Gpu *gpu, const char *bus_id, void *out);

/* mig.c */
int mig_place(const void *handle);     /* GPU times MAX_MIGS plus instance, -1 for another handle */
bool mig_knows(const char *function);  /* whether a call takes the handle of an instance */
const Mig *mig_of_instance(const Gpu *gpu, int64_t gpu_instance);

/* activity.c: what contexts and listed processes add to a GPU. Times are CLOCK_MONOTONIC seconds. */
typedef struct {
    double util, sm, tensor, dram; /* percent */
    double extra_mw;
    int64_t mem_bytes;
} Activity;

double monotonic_s(void);
void activity_now(const Gpu *gpu, Activity *out);
/* Mean activity of [from, to]; extra_mw is then the mean extra power. */
void activity_mean(const Gpu *gpu, double from, double to, Activity *out);
double activity_extra_mj(const Gpu *gpu); /* energy that contexts have cost since ever */
int activity_processes(const Gpu *gpu, char kind, Process *out, int capacity);
int64_t power_mw(const Gpu *gpu);
int64_t energy_mj(const State *state, const Gpu *gpu);
bool counters_live(const State *state);
double counters_age_s(const State *state);

/* nvlink.c */
int link_count(const Gpu *gpu);
bool link_active(const Gpu *gpu, unsigned link);
int64_t link_rate(const Gpu *gpu, unsigned link, bool transmit);   /* bytes/s */
int64_t link_bytes(const State *state, const Gpu *gpu, unsigned link, bool transmit);
int64_t pcie_bytes(const State *state, const Gpu *gpu, bool transmit);

/* pool.c */
typedef struct {
    char name[TEXT];
    char uuid[TEXT];
    unsigned pid;
    double start_s, end_s; /* end_s < 0 while it lives */
    double alive_s;        /* until when this process has reported it as alive */
    Activity activity;
} Context;
const Context *pool_scan(int *count, bool fresh); /* lock held */

#endif
