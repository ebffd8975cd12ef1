/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_runtime/job_env.h"

#include "base/str.h"

#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RANKS_MAX (1 << 20)

struct number {
    const char *name;
    int min, max;
    size_t at;
};

/* clang-format off */
static const struct number place[] = {
    {"RANK",             0, RANKS_MAX - 1, offsetof(struct dt_job_env, rank)},
    {"WORLD_SIZE",       1, RANKS_MAX,     offsetof(struct dt_job_env, world)},
    {"LOCAL_RANK",       0, RANKS_MAX - 1, offsetof(struct dt_job_env, local_rank)},
    {"LOCAL_WORLD_SIZE", 1, RANKS_MAX,     offsetof(struct dt_job_env, local_world)},
    {"GROUP_RANK",       0, RANKS_MAX - 1, offsetof(struct dt_job_env, group)},
    {"GROUP_WORLD_SIZE", 1, RANKS_MAX,     offsetof(struct dt_job_env, groups)},
};
/* clang-format on */
#define PLACES (sizeof place / sizeof *place)

/* Set to nothing is as good as not set. */
static const char *value_of(const char *name)
{
    const char *v = getenv(name);
    return v && *v ? v : NULL;
}

static int read_number(const char *name, int min, int max, int *out, struct dt_err *err)
{
    int64_t v;
    if (dt_str_to_int(value_of(name), min, max, &v, err) < 0)
        return dt_err_wrap(err, "%s in the environment", name);
    *out = (int)v;
    return 0;
}

/* How many there are decides: none is a program started by hand. */
static int read_place(struct dt_job_env *e, struct dt_err *err)
{
    const char *there = NULL, *missing = NULL;
    for (size_t i = 0; i < PLACES; i++)
        if (value_of(place[i].name))
            there = there ? there : place[i].name;
        else
            missing = missing ? missing : place[i].name;
    e->alone = !there;
    if (e->alone)
        return 0;
    if (missing)
        return dt_err_set(err, DT_E_USAGE,
                          "%s is not in the environment, but %s is: a worker needs all of what its "
                          "launcher sets or none of it; start it with dtrun, or unset %s to run "
                          "alone",
                          missing, there, there);
    for (size_t i = 0; i < PLACES; i++)
        if (read_number(place[i].name, place[i].min, place[i].max, (int *)((char *)e + place[i].at),
                        err) < 0)
            return -1;
    return 0;
}

static int check_below(const char *name, int value, const char *size_name, int size,
                       struct dt_err *err)
{
    if (value < size)
        return 0;
    return dt_err_set(err, DT_E_USAGE,
                      "%s is %d, but %s is %d, and ranks are counted from 0: the environment mixes "
                      "two jobs; start this with dtrun, or unset both",
                      name, value, size_name, size);
}

static int check_within(const char *name, int value, const char *size_name, int size,
                        struct dt_err *err)
{
    if (value <= size)
        return 0;
    return dt_err_set(err, DT_E_USAGE,
                      "%s is %d, more than %s, which is %d: the environment mixes two jobs; start "
                      "this with dtrun, or unset both",
                      name, value, size_name, size);
}

static int check_place(const struct dt_job_env *e, struct dt_err *err)
{
    if (check_below("RANK", e->rank, "WORLD_SIZE", e->world, err) < 0 ||
        check_below("LOCAL_RANK", e->local_rank, "LOCAL_WORLD_SIZE", e->local_world, err) < 0 ||
        check_below("GROUP_RANK", e->group, "GROUP_WORLD_SIZE", e->groups, err) < 0 ||
        check_within("LOCAL_WORLD_SIZE", e->local_world, "WORLD_SIZE", e->world, err) < 0 ||
        check_within("GROUP_WORLD_SIZE", e->groups, "WORLD_SIZE", e->world, err) < 0)
        return -1;
    if (e->groups == 1 && e->local_world != e->world)
        return dt_err_set(err, DT_E_USAGE,
                          "LOCAL_WORLD_SIZE is %d and WORLD_SIZE is %d, but GROUP_WORLD_SIZE is 1, "
                          "so all ranks are here: the environment mixes two jobs; start this with "
                          "dtrun",
                          e->local_world, e->world);
    return 0;
}

/* What a world of one needs not to know, and may yet be told. */
static int read_count(const char *name, int *out, struct dt_err *err)
{
    *out = 0;
    return value_of(name) ? read_number(name, 0, INT_MAX, out, err) : 0;
}

static int read_run(struct dt_job_env *e, struct dt_err *err)
{
    const char *id = value_of("TORCHELASTIC_RUN_ID");
    int round;
    if (read_count("TORCHELASTIC_RESTART_COUNT", &e->restarts, err) < 0 ||
        read_count("DTRUN_ROUND", &round, err) < 0)
        return -1;
    e->epoch = value_of("DTRUN_ROUND") ? round : e->restarts;
    if (id && strlen(id) >= sizeof e->run_id)
        return dt_err_set(err, DT_E_USAGE,
                          "TORCHELASTIC_RUN_ID in the environment has %zu characters, at most %zu "
                          "are taken; give a shorter --rdzv-id",
                          strlen(id), sizeof e->run_id - 1);
    snprintf(e->run_id, sizeof e->run_id, "%s", id ? id : "");
    return 0;
}

/* The ranks meet at a store that an agent serves. Without one PyTorch makes rank 0 serve it, whose
 * end would take it away while others still ask. */
static int read_store(struct dt_job_env *e, struct dt_err *err)
{
    const char *host = value_of("MASTER_ADDR"), *served = value_of("TORCHELASTIC_USE_AGENT_STORE");
    int port = 0;
    if (!host || !value_of("MASTER_PORT"))
        return dt_err_set(err, DT_E_USAGE,
                          "%s is not in the environment, and WORLD_SIZE is %d: the ranks have no "
                          "place to meet; start this with dtrun",
                          host ? "MASTER_PORT" : "MASTER_ADDR", e->world);
    if (read_number("MASTER_PORT", 1, 65535, &port, err) < 0)
        return -1;
    if (!served || strcmp(served, "True") != 0)
        return dt_err_set(err, DT_E_USAGE,
                          "TORCHELASTIC_USE_AGENT_STORE in the environment is %s%.20s%s, not "
                          "\"True\", so nobody serves the store at %.100s:%d where the ranks meet; "
                          "start this with dtrun, or with a torchrun that serves it",
                          served ? "\"" : "", served ? served : "not set", served ? "\"" : "", host,
                          port);
    const char *open = strchr(host, ':') && *host != '[' ? "[" : "", *end = *open ? "]" : "";
    if (snprintf(e->store, sizeof e->store, "%s%s%s:%d", open, host, end, port) >=
        (int)sizeof e->store)
        return dt_err_set(err, DT_E_USAGE,
                          "MASTER_ADDR in the environment has %zu characters, which no host name "
                          "has; it begins with \"%.40s\"",
                          strlen(host), host);
    return 0;
}

int dt_job_env_read(struct dt_job_env *e, struct dt_err *err)
{
    *e = (struct dt_job_env){.world = 1, .local_world = 1, .groups = 1};
    if (read_place(e, err) < 0)
        return -1;
    if (e->alone)
        return 0;
    if (check_place(e, err) < 0 || read_run(e, err) < 0)
        return -1;
    return e->world > 1 ? read_store(e, err) : 0;
}

static int set_number(const char *name, int value)
{
    char text[16];
    snprintf(text, sizeof text, "%d", value);
    return setenv(name, text, 1);
}

/* A place in a world that is not known is not in the environment. */
static int set_rank(const char *rank_name, int rank, const char *size_name, int size)
{
    if (size <= 0)
        return unsetenv(rank_name) | unsetenv(size_name);
    return set_number(rank_name, rank) | set_number(size_name, size);
}

int dt_job_env_enter(const struct dt_page_world *w, struct dt_err *err)
{
    const struct {
        const char *name;
        int value;
    } numbers[] = {
        {"RANK", w->rank},
        {"WORLD_SIZE", w->size},
        {"LOCAL_RANK", w->local_rank},
        {"LOCAL_WORLD_SIZE", w->local_size},
        {"GROUP_RANK", w->group},
        {"GROUP_WORLD_SIZE", w->groups},
        {"MASTER_PORT", w->master_port},
        {"TORCHELASTIC_RESTART_COUNT", w->restarts},
        {"DTRUN_RESTART_COUNT", w->restarts},
        {"DTRUN_ROUND", w->round},
    };
    int rc = setenv("MASTER_ADDR", w->master_addr, 1);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        rc |= set_number(numbers[i].name, numbers[i].value);
    rc |= set_rank("ROLE_RANK", w->role_rank, "ROLE_WORLD_SIZE", w->role_size);
    rc |= set_rank("DTRUN_PREV_RANK", w->prev_rank, "DTRUN_PREV_WORLD_SIZE", w->prev_size);
    return rc ? dt_err_set(err, DT_E_MEMORY, "no memory for the environment of the next world") : 0;
}

int dt_job_env_threads(int asked, int local_world, int *threads, struct dt_err *err)
{
    const char *omp = value_of("OMP_NUM_THREADS");
    if (asked > 0 || omp) {
        /* A list is for nested parallel regions; the first is what we have. */
        char first[16];
        int64_t v = asked;
        snprintf(first, sizeof first, "%.*s", omp ? (int)strcspn(omp, ",") : 0, omp ? omp : "");
        if (asked <= 0 && dt_str_to_int(first, 1, 4096, &v, err) < 0)
            return dt_err_wrap(err, "OMP_NUM_THREADS in the environment");
        *threads = (int)v;
        return 0;
    }
    cpu_set_t set;
    int processors = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    *threads = processors / local_world > 0 ? processors / local_world : 1;
    return 0;
}
