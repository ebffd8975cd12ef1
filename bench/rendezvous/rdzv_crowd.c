/* SPDX-License-Identifier: Apache-2.0 */
/* rdzv_crowd HOST:PORT --agents N --pid PID: the life of an elastic job of so many nodes as its
 * rendezvous sees it: all join, one dies, the others are told to stop and join again, and then they
 * beat as fast as they are answered. One line a phase, for rendezvous.sh:
 *
 *   join    SECONDS CPU FRAMES-UP FRAMES-DOWN BYTES-UP BYTES-DOWN   first connect to last world
 *   stop    SECONDS CPU SPREAD                                      close to last stop; first to
 * last rejoin  SECONDS CPU FRAMES-UP FRAMES-DOWN BYTES-UP BYTES-DOWN   first join to last world
 *   beat    SECONDS CPU ECHOED
 *   memory  KIB                                                     most that was resident
 *
 * CPU is what the rendezvous, process PID on this host, used meanwhile. */
#include "bench/flags.h"
#include "bench/rendezvous/crowd.h"
#include "bench/rendezvous/process.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

struct options {
    unsigned long agents, pid;
    double seconds;
};

static const char usage[] = "Usage: rdzv_crowd HOST:PORT --agents N --pid PID [options]\n"
                            "Plays the agents of an elastic job towards a rendezvous.";

#define AT(MEMBER) offsetof(struct options, MEMBER)

/* clang-format off */
static const struct flag flags[] = {
    {"agents", FLAG_COUNT, AT(agents), 2, 200000, NULL, "how many"},
    {"pid", FLAG_COUNT, AT(pid), 1, 1ul << 30, NULL, "the process of the rendezvous"},
    {"seconds", FLAG_TIME, AT(seconds), 0, 600, NULL, "how long to beat (3)"},
    {0},
};
/* clang-format on */

/* A phase: its clocks. */
struct phase {
    pid_t pid;
    int64_t began;
    double cpu;
    struct crowd_counts counts;
};

static int begin(struct phase *p, const struct crowd *c, struct fail *f)
{
    p->counts = *crowd_counts(c);
    p->began = dt_clock_monotonic_ns();
    return process_cpu(p->pid, &p->cpu, f);
}

/* Prints NAME, how long it was, and what of the processor it took. */
static int end(struct phase *p, const char *name, struct fail *f)
{
    int64_t took = dt_clock_monotonic_ns() - p->began;
    double cpu;
    if (process_cpu(p->pid, &cpu, f) < 0)
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

static int join(struct phase *p, struct crowd *c, struct fail *f)
{
    if (begin(p, c, f) < 0 || crowd_connect(c, f) < 0 ||
        crowd_await(c, DT_MSG_WORLD, NULL, f) < 0 || end(p, "join", f) < 0)
        return -1;
    print_traffic(p, c);
    return crowd_check_worlds(c, f);
}

static int stop(struct phase *p, struct crowd *c, struct fail *f)
{
    int64_t first;
    if (begin(p, c, f) < 0)
        return -1;
    crowd_kill_one(c);
    if (crowd_await(c, DT_MSG_STOP, &first, f) < 0 || end(p, "stop", f) < 0)
        return -1;
    printf(" %.6f\n", (double)(dt_clock_monotonic_ns() - first) / 1e9);
    return 0;
}

static int rejoin(struct phase *p, struct crowd *c, struct fail *f)
{
    crowd_prepare(c);
    if (begin(p, c, f) < 0 || crowd_rejoin(c, f) < 0 || crowd_await(c, DT_MSG_WORLD, NULL, f) < 0 ||
        end(p, "rejoin", f) < 0)
        return -1;
    print_traffic(p, c);
    return crowd_check_worlds(c, f);
}

static int beat(struct phase *p, struct crowd *c, double seconds, struct fail *f)
{
    uint64_t echoed;
    if (begin(p, c, f) < 0 || crowd_beat(c, seconds, &echoed, f) < 0 || end(p, "beat", f) < 0)
        return -1;
    printf(" %" PRIu64 "\n", echoed);
    return 0;
}

static int memory(const struct phase *p, struct fail *f)
{
    unsigned long kib;
    if (process_peak(p->pid, &kib, f) < 0)
        return -1;
    printf("memory %lu\n", kib);
    return 0;
}

static int room_for(unsigned long agents, struct fail *f)
{
    struct rlimit r;
    getrlimit(RLIMIT_NOFILE, &r);
    r.rlim_cur = r.rlim_max;
    setrlimit(RLIMIT_NOFILE, &r);
    if (agents + 16 > r.rlim_max)
        return fail_set(f, FAIL_RUN,
                        "%lu agents need more than the %lu open files that a process may have "
                        "here; raise the hard limit (ulimit -Hn).",
                        agents, (unsigned long)r.rlim_max);
    return 0;
}

static int run(const struct options *o, const char *host, const char *port, struct fail *f)
{
    struct phase p = {.pid = (pid_t)o->pid};
    if (room_for(o->agents, f) < 0)
        return -1;
    struct crowd *c = crowd_open(host, port, (unsigned)o->agents, f);
    if (!c)
        return -1;
    int rc = 0;
    if (join(&p, c, f) < 0 || stop(&p, c, f) < 0 || rejoin(&p, c, f) < 0 ||
        beat(&p, c, o->seconds, f) < 0 || memory(&p, f) < 0)
        rc = -1;
    crowd_close(c);
    return rc;
}

int main(int argc, char **argv)
{
    struct fail f;
    struct options o = {.seconds = 3};
    const char *word;
    char host[256];
    int rc = flags_parse(flags, argc, argv, &o, &word, usage, &f);
    if (rc > 0)
        return 0;
    const char *colon = rc == 0 && word ? strrchr(word, ':') : NULL;
    if (rc == 0 && (!colon || (size_t)(colon - word) >= sizeof host || !o.agents || !o.pid))
        rc = fail_set(&f, FAIL_USAGE, "say HOST:PORT, --agents and --pid; --help lists all.");
    if (rc == 0) {
        snprintf(host, sizeof host, "%.*s", (int)(colon - word), word);
        rc = run(&o, host, colon + 1, &f);
    }
    return rc < 0 ? fail_print(&f, "rdzv_crowd") : 0;
}
