/* SPDX-License-Identifier: Apache-2.0 */
/* Times libdtrun's collectives between processes of this host. A row for each size: bytes, and
 * microseconds of one all-reduce of the slowest rank, the best of the repeats. With --deaths N: how
 * many milliseconds after a kill -9 the last survivor has its error, N times. */
#include "bench/program.h"
#include "tests/runtime/meeting.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#define RANKS_MAX 64

struct options {
    unsigned long ranks, hosts, repeats, deaths;
    int memory;
};

enum { ALLOCATED, ORDINARY };
static const char *const memories[] = {"allocated", "ordinary", NULL};

PROGRAM_NUMBER(parse_ranks, 1, RANKS_MAX)
PROGRAM_NUMBER(parse_repeats, 1, 1000)
PROGRAM_NUMBER(parse_deaths, 0, 1000)
PROGRAM_CHOICE(parse_memory, memories)

#define AT(MEMBER) .at = offsetof(struct options, MEMBER)

/* clang-format off */
static const struct dt_opt opts[] = {
    {.name = "ranks", .arg = "N", .parse = parse_ranks, AT(ranks), .fallback = "2", .help = "processes"},
    {.name = "hosts", .arg = "N", .parse = parse_ranks, AT(hosts), .fallback = "1",
     .help = "talk as if they were on so many hosts, over loopback"},
    {.name = "repeats", .arg = "N", .parse = parse_repeats, AT(repeats), .fallback = "5", .help = "how often each size is timed"},
    {.name = "deaths", .arg = "N", .parse = parse_deaths, AT(deaths), .fallback = "0", .help = "kill one instead, so often"},
    {.name = "memory", .arg = "KIND", .parse = parse_memory, AT(memory), .fallback = "allocated",
     .help = "where buffers lie: allocated or ordinary"},
    {0},
};
/* clang-format on */

static const struct dt_opt_program program = {
    .name = "coll_bench",
    .usage = "[options]",
    .summary = "Times libdtrun's collectives on a host.",
    .table = opts,
};

struct job {
    struct options opt;
    struct meeting *meeting;
    struct board {
        _Atomic int64_t told[RANKS_MAX]; /* when a rank got its error */
        _Atomic int turns;
    } * board;
    int epoch;
};

static const struct size {
    size_t bytes;
    int turns;
} sizes[] = {{4 << 10, 5000}, {256 << 10, 500}, {4 << 20, 50}, {64 << 20, 3}};

static void ok(int rc, const struct dt_err *err)
{
    if (rc == 0)
        return;
    fprintf(stderr, "coll_bench: %s\n", err->text);
    _exit(1);
}

static struct dt_coll *join(const struct job *j, int rank)
{
    struct dt_coll_member members[RANKS_MAX] = {0};
    struct dt_err err;
    for (int i = 0; i < (int)j->opt.ranks; i++)
        members[i] = (struct dt_coll_member){.world_rank = i,
                                             .host = i * (int)j->opt.hosts / (int)j->opt.ranks};
    struct dt_coll_group g = {.members = members,
                              .size = (int)j->opt.ranks,
                              .rank = rank,
                              .epoch = j->epoch,
                              .name = "world",
                              .timeout = 60 * DT_SECOND};
    struct dt_coll *c = dt_coll_open(&g, &j->meeting->table, &err);
    ok(c ? 0 : -1, &err);
    return c;
}

/* Seconds of one turn on the slowest rank. */
static double time_once(struct dt_coll *c, float *v, const struct size *s)
{
    struct dt_err err;
    ok(dt_coll_barrier(c, &err), &err);
    int64_t from = dt_clock_monotonic_ns();
    for (int i = 0; i < s->turns; i++)
        ok(dt_coll_all_reduce(c, v, s->bytes / sizeof *v, DT_F32, DT_SUM, &err), &err);
    double took = (double)(dt_clock_monotonic_ns() - from) / s->turns / 1e9;
    ok(dt_coll_all_reduce(c, &took, 1, DT_F64, DT_MAX, &err), &err);
    return took;
}

static void rank_time(const struct job *j, int rank)
{
    struct dt_coll *c = join(j, rank);
    struct dt_err err;
    size_t most = sizes[3].bytes;
    float *v = j->opt.memory == ALLOCATED ? dt_coll_alloc(c, most, DT_OWN, &err) : calloc(1, most);
    ok(v ? 0 : -1, &err);
    for (size_t i = 0; i < most / sizeof *v; i++)
        v[i] = 0;
    for (int k = 0; k < 4; k++) {
        double best = 1e9;
        for (unsigned long i = 0; i < j->opt.repeats; i++) {
            double took = time_once(c, v, &sizes[k]);
            best = took < best ? took : best;
        }
        if (rank == 0)
            printf("%zu %.3f\n", sizes[k].bytes, best * 1e6);
    }
    fflush(stdout);
    dt_coll_destroy(c);
}

static void rank_survive(const struct job *j, int rank)
{
    struct dt_coll *c = join(j, rank);
    struct dt_err err;
    float *v = dt_coll_alloc(c, 4 << 20, DT_OWN, &err);
    ok(v ? 0 : -1, &err);
    while (dt_coll_all_reduce(c, v, 1 << 20, DT_F32, DT_SUM, &err) == 0)
        if (rank == 0)
            ++j->board->turns;
    j->board->told[rank] = dt_clock_monotonic_ns();
    dt_coll_destroy(c);
}

static void spawn(const struct job *j, pid_t *pids, void (*run)(const struct job *, int))
{
    fflush(stdout);
    for (int r = 0; r < (int)j->opt.ranks; r++) {
        pids[r] = fork();
        if (pids[r] != 0)
            continue;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        run(j, r);
        _exit(0);
    }
}

static int reap(const struct job *j, const pid_t *pids)
{
    int bad = 0;
    for (int r = 0; r < (int)j->opt.ranks; r++) {
        int status;
        waitpid(pids[r], &status, 0);
        bad += status != 0;
    }
    return bad;
}

static int kill_one(struct job *j, pid_t *pids, struct dt_err *err)
{
    int last = (int)j->opt.ranks - 1;
    int64_t latest = 0;
    memset(j->board, 0, sizeof *j->board);
    j->epoch++;
    spawn(j, pids, rank_survive);
    while (j->board->turns < 10)
        usleep(100);
    int64_t killed = dt_clock_monotonic_ns();
    kill(pids[last], SIGKILL);
    if (reap(j, pids) != 1)
        return dt_err_set(err, DT_E_RUNTIME, "a survivor failed too");
    for (int r = 0; r < last; r++)
        latest = j->board->told[r] > latest ? j->board->told[r] : latest;
    printf("%.3f\n", (double)(latest - killed) / 1e6);
    return 0;
}

static int measure(struct job *j, struct dt_err *err)
{
    pid_t pids[RANKS_MAX];
    for (unsigned long i = 0; i < j->opt.deaths; i++)
        if (kill_one(j, pids, err) < 0)
            return -1;
    if (j->opt.deaths > 0)
        return 0;
    spawn(j, pids, rank_time);
    return reap(j, pids) == 0 ? 0 : dt_err_set(err, DT_E_RUNTIME, "a rank failed");
}

int main(int argc, char **argv)
{
    struct job j = {0};
    struct dt_err err = {0};
    int rc = program_read(&program, argc, argv, &j.opt, &err);
    if (rc == 0) {
        j.meeting = meeting_create();
        j.board =
            mmap(NULL, sizeof *j.board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        rc = j.board == MAP_FAILED ? dt_err_set(&err, DT_E_MEMORY, "no memory for a board")
                                   : measure(&j, &err);
    }
    return program_end(&program, rc, &err);
}
