/* SPDX-License-Identifier: Apache-2.0 */
/* rdzv_crowd --server HOST:PORT --agents N --pid PID: the life of an elastic job of so many nodes
 * as its rendezvous sees it: all join, one dies, the others are told to stop and join again, and
 * then they beat as fast as they are answered. One line a phase, for rendezvous.sh:
 *
 *     join    SECONDS CPU FRAMES-UP FRAMES-DOWN BYTES-UP BYTES-DOWN  first connect to last world
 *     stop    SECONDS CPU SPREAD                                     close to last stop; first to last
 *     rejoin  SECONDS CPU FRAMES-UP FRAMES-DOWN BYTES-UP BYTES-DOWN  first join to last world
 *     beat    SECONDS CPU ECHOED
 *     memory  KIB                                                    most that was resident
 *
 * CPU is what the rendezvous, process PID on this host, used meanwhile. */
#include "bench/program.h"
#include "bench/rendezvous/crowd.h"
#include "bench/rendezvous/process.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

struct options {
    char *server;
    unsigned long agents, pid;
    double seconds;
};

PROGRAM_NUMBER(parse_agents, 2, 200000)
PROGRAM_NUMBER(parse_pid, 1, 1ul << 30)
PROGRAM_SECONDS(parse_seconds, 0, 600)

#define AT(MEMBER) .at = offsetof(struct options, MEMBER)

/* clang-format off */
static const struct dt_opt opts[] = {
    {.name = "server", .arg = "HOST:PORT", AT(server), .help = "where the rendezvous listens"},
    {.name = "agents", .arg = "N", .parse = parse_agents, AT(agents), .help = "how many"},
    {.name = "pid", .arg = "PID", .parse = parse_pid, AT(pid), .help = "the process of the rendezvous"},
    {.name = "seconds", .arg = "TIME", .parse = parse_seconds, AT(seconds), .fallback = "3", .help = "how long to beat"},
    {0},
};
/* clang-format on */

static const struct dt_opt_program program = {
    .name = "rdzv_crowd",
    .usage = "--server HOST:PORT --agents N --pid PID [options]",
    .summary = "Plays the agents of an elastic job towards a rendezvous.",
    .table = opts,
};

/* A phase: its clocks. */
struct phase {
    pid_t pid;
    int64_t began;
    double cpu;
    struct crowd_counts counts;
};

static int begin(struct phase *p, const struct crowd *c, struct dt_err *err)
{
    p->counts = *crowd_counts(c);
    p->began = dt_clock_monotonic_ns();
    return process_cpu(p->pid, &p->cpu, err);
}

/* Prints NAME, how long it was, and what of the processor it took. */
static int end(struct phase *p, const char *name, struct dt_err *err)
{
    int64_t took = dt_clock_monotonic_ns() - p->began;
    double cpu;
    if (process_cpu(p->pid, &cpu, err) < 0)
        return -1;
    printf("%s %.6f %.6f", name, (double)took / 1e9, cpu - p->cpu);
    return 0;
}

static void print_traffic(const struct phase *p, const struct crowd *c)
{
    const struct crowd_counts *now = crowd_counts(c), *then = &p->counts;
    printf(" %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", now->frames_up - then->frames_up,
           now->frames_down - then->frames_down, now->bytes_up - then->bytes_up,
           now->bytes_down - then->bytes_down);
}

static int join(struct phase *p, struct crowd *c, struct dt_err *err)
{
    if (begin(p, c, err) < 0 || crowd_connect(c, err) < 0 ||
        crowd_await(c, DT_MSG_WORLD, NULL, err) < 0 || end(p, "join", err) < 0)
        return -1;
    print_traffic(p, c);
    return crowd_check_worlds(c, err);
}

static int stop(struct phase *p, struct crowd *c, struct dt_err *err)
{
    int64_t first;
    if (begin(p, c, err) < 0)
        return -1;
    crowd_kill_one(c);
    if (crowd_await(c, DT_MSG_STOP, &first, err) < 0 || end(p, "stop", err) < 0)
        return -1;
    printf(" %.6f\n", (double)(dt_clock_monotonic_ns() - first) / 1e9);
    return 0;
}

static int rejoin(struct phase *p, struct crowd *c, struct dt_err *err)
{
    crowd_prepare(c);
    if (begin(p, c, err) < 0 || crowd_rejoin(c, err) < 0 ||
        crowd_await(c, DT_MSG_WORLD, NULL, err) < 0 || end(p, "rejoin", err) < 0)
        return -1;
    print_traffic(p, c);
    return crowd_check_worlds(c, err);
}

static int beat(struct phase *p, struct crowd *c, double seconds, struct dt_err *err)
{
    uint64_t echoed;
    if (begin(p, c, err) < 0 || crowd_beat(c, seconds, &echoed, err) < 0 || end(p, "beat", err) < 0)
        return -1;
    printf(" %" PRIu64 "\n", echoed);
    return 0;
}

static int memory(const struct phase *p, struct dt_err *err)
{
    unsigned long kib;
    if (process_peak(p->pid, &kib, err) < 0)
        return -1;
    printf("memory %lu\n", kib);
    return 0;
}

static int room_for(unsigned long agents, struct dt_err *err)
{
    struct rlimit r;
    getrlimit(RLIMIT_NOFILE, &r);
    r.rlim_cur = r.rlim_max;
    setrlimit(RLIMIT_NOFILE, &r);
    if (agents + 16 > r.rlim_max)
        return dt_err_set(err, DT_E_RUNTIME,
                          "%lu agents need more than the %lu open files that a process may have "
                          "here; raise the hard limit (ulimit -Hn)",
                          agents, (unsigned long)r.rlim_max);
    return 0;
}

static int run(const struct options *o, struct dt_err *err)
{
    struct phase p = {.pid = (pid_t)o->pid};
    if (!o->server || !o->agents || !o->pid)
        return dt_err_set(err, DT_E_USAGE, "say --server HOST:PORT, --agents and --pid");
    if (room_for(o->agents, err) < 0)
        return -1;
    struct crowd *c = crowd_open(o->server, (unsigned)o->agents, err);
    if (!c)
        return -1;
    int rc = 0;
    if (join(&p, c, err) < 0 || stop(&p, c, err) < 0 || rejoin(&p, c, err) < 0 ||
        beat(&p, c, o->seconds, err) < 0 || memory(&p, err) < 0)
        rc = -1;
    crowd_close(c);
    return rc;
}

int main(int argc, char **argv)
{
    struct dt_err err;
    struct options o = {0};
    int rc = program_read(&program, argc, argv, &o, &err);
    if (rc == 0)
        rc = run(&o, &err);
    dt_opt_finish(&program, &o);
    return program_end(&program, rc, &err);
}
