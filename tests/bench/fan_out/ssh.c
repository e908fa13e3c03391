/* A stand-in for ssh: one small process a node that speaks the probe's protocol from a template.
 *
 * $FAN_OUT_ROLES names a file with one letter a node: h healthy, b black-holed, l hangs after login,
 * s says hello and stalls, t reports once, writes half a line and stalls. $FAN_OUT_REPORT names the
 * report, in which @AT@ stands for the node's clock and @NODE for five digits of its number.
 * $FAN_OUT_LOGIN_MS is the CPU time that a login takes on this side.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define CONNECT_TIMEOUT_S 10
#define LEASE_S 30.0

static double seconds(clockid_t which)
{
	struct timespec t;
	clock_gettime(which, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

static char *slurp(const char *path, size_t *size)
{
	FILE *file = fopen(path ? path : "", "r");
	char *text;
	if (!file || fseek(file, 0, SEEK_END))
		exit(2);
	*size = (size_t)ftell(file);
	rewind(file);
	text = calloc(1, *size + 1);
	if (fread(text, 1, *size, file) != *size)
		exit(2);
	fclose(file);
	return text;
}

static void say(const char *text, size_t size)
{
	while (size) {
		ssize_t done = write(1, text, size);
		if (done <= 0)
			exit(0);
		text += done;
		size -= (size_t)done;
	}
}

/* Reads whatever comes until the end of input. */
static void hang(void)
{
	char dust[4096];
	while (read(0, dust, sizeof dust) > 0)
		;
	exit(0);
}

static char *program(void)
{
	char head[32];
	size_t n = 0, got = 0, size;
	char *body;
	while (n < sizeof head - 1 && read(0, head + n, 1) == 1 && head[n] != '\n')
		n++;
	head[n] = 0;
	size = (size_t)atol(head);
	body = calloc(1, size + 1);
	while (got < size) {
		ssize_t more = read(0, body + got, size - got);
		if (more <= 0)
			exit(0);
		got += (size_t)more;
	}
	return body;
}

static const char *after(const char *text, const char *word)
{
	const char *found = strstr(text, word);
	if (!found)
		exit(3);
	return found + strlen(word);
}

static char *filled(const char *report, size_t size, int node)
{
	char digits[16], *text = malloc(size + 1), *at;
	memcpy(text, report, size + 1);
	snprintf(digits, sizeof digits, "%05d", node % 100000);
	for (at = text; (at = strstr(at, "@NODE")); at += 5)
		memcpy(at, digits, 5);
	return text;
}

static void report(char *text, double at)
{
	char clock[32];
	char *place = strstr(text, "@AT@");
	int n = snprintf(clock, sizeof clock, "%.4f", at);
	say(text, (size_t)(place - text));
	say(clock, (size_t)n);
	say(place + 4, strlen(place + 4));
	say("\n", 1);
}

int main(int argc, char **argv)
{
	int i = 1, node, is_once;
	size_t roles_size, report_size, n = 0;
	char *roles, *text, *body, role, hello[128], wish[256];
	const char *login_ms = getenv("FAN_OUT_LOGIN_MS");
	double until, period, due, renewed;

	while (i < argc && strcmp(argv[i], "--"))
		i++;
	if (i + 1 >= argc)
		return 2;
	node = atoi(argv[i + 1] + strcspn(argv[i + 1], "0123456789"));
	roles = slurp(getenv("FAN_OUT_ROLES"), &roles_size);
	role = node > 0 && (size_t)node <= roles_size ? roles[node - 1] : 'b';
	if (role == 'b') {
		struct pollfd killed = {-1, 0, 0};
		poll(&killed, 1, CONNECT_TIMEOUT_S * 1000);
		fprintf(stderr, "ssh: connect to host %s port 22: Connection timed out\r\n", argv[i + 1]);
		return 255;
	}
	until = (login_ms ? atof(login_ms) : 0) / 1e3;
	while (seconds(CLOCK_PROCESS_CPUTIME_ID) < until)
		;
	if (role == 'l')
		hang();
	body = program();
	period = atof(after(body, "'period_s': "));
	is_once = strstr(body, "'once': True") != NULL;
	snprintf(hello, sizeof hello, "{\"gpumon_probe\":1,\"nonce\":\"%.16s\",\"node\":\"n%05d\"}\n",
		 after(body, "'nonce': '"), node);
	say(hello, strlen(hello));
	free(body);
	if (role == 's')
		hang();
	text = slurp(getenv("FAN_OUT_REPORT"), &report_size);
	text = filled(text, report_size, node);
	due = renewed = seconds(CLOCK_MONOTONIC);
	for (;;) {
		struct pollfd in = {0, POLLIN, 0};
		double now = seconds(CLOCK_MONOTONIC);
		if (now - renewed > LEASE_S)
			return 0;
		if (now >= due) {
			report(text, now);
			if (is_once)
				return 0;
			due += period;
			if (due < now)
				due = now + period;
			if (role == 't') {
				say(text, report_size / 2);
				hang();
			}
		}
		now = due < renewed + LEASE_S ? due : renewed + LEASE_S;
		now -= seconds(CLOCK_MONOTONIC);
		if (poll(&in, 1, now > 0 ? (int)(now * 1e3) + 1 : 0) > 0) {
			ssize_t got = read(0, wish + n, sizeof wish - 1 - n);
			char *end;
			if (got <= 0)
				return 0;
			n += (size_t)got;
			wish[n] = 0;
			renewed = seconds(CLOCK_MONOTONIC);
			while ((end = strchr(wish, '\n'))) {
				if (!strncmp(wish, "period ", 7) && atof(wish + 7) > 0)
					period = atof(wish + 7);
				n -= (size_t)(end + 1 - wish);
				memmove(wish, end + 1, n + 1);
			}
			if (n >= sizeof wish - 1)
				n = 0;
		}
	}
}
