/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/lineup.h"

#include "agent/env.h"

#include <stdlib.h>

/* The lists are ours to free, and struct dt_spawn promises not to change them. */
static void free_list(char *const *list)
{
    dt_env_free((char **)(uintptr_t)list);
}

void dt_lineup_free(struct dt_spawn *spawns, int count)
{
    for (int i = 0; spawns && i < count; i++) {
        free_list(spawns[i].argv);
        free_list(spawns[i].env);
    }
    free(spawns);
}

static char **make_env(const struct dt_lineup *from, int local_rank, struct dt_err *err)
{
    char *error_file = dt_log_dir_file(from->logs, local_rank, "error.json");
    struct dt_env_worker worker = {
        .local_rank = local_rank,
        .restart_count = from->restart_count,
        .log_dir = from->logs->base_is_ours ? NULL : from->logs->run,
        .error_file = error_file,
        .timer_file = from->timer_file,
        .progress_fd = dt_pages_fd(from->pages, local_rank),
        .vault_own_fd = dt_vaults_own(from->vaults, local_rank),
        .vault_peer_fd = dt_vaults_peer(from->vaults, local_rank),
        .flight = dt_recorders_prefix(from->recorders, local_rank),
    };
    char **env = dt_env_make(from->plan, from->world, &worker, from->env, err);
    free(error_file);
    return env;
}

static int make_one(const struct dt_lineup *from, int local_rank, struct dt_spawn *s,
                    struct dt_err *err)
{
    int fds[2];
    s->argv = dt_env_argv(from->plan, local_rank, err);
    s->env = s->argv ? make_env(from, local_rank, err) : NULL;
    if (!s->env || dt_output_open(from->output, local_rank, fds, err) < 0)
        return -1;
    s->path = s->argv[0];
    s->out = fds[0];
    s->err = fds[1];
    s->keep[0] = dt_pages_fd(from->pages, local_rank);
    s->keep[1] = dt_vaults_own(from->vaults, local_rank);
    s->keep[2] = dt_vaults_peer(from->vaults, local_rank);
    if (from->bind)
        s->place = dt_bind_place(from->bind, local_rank);
    return 0;
}

struct dt_spawn *dt_lineup_make(const struct dt_lineup *from, struct dt_err *err)
{
    int count = from->plan->nproc;
    struct dt_spawn *spawns = calloc((size_t)count, sizeof *spawns);
    if (!spawns) {
        dt_err_set(err, DT_E_MEMORY, "no memory for %d workers", count);
        return NULL;
    }
    for (int i = 0; i < count; i++) {
        if (from->group && dt_group_worker(from->group, i)->end == DT_WORKER_RUNS)
            continue;
        if (make_one(from, i, &spawns[i], err) < 0) {
            dt_err_wrap(err, "worker %d", i);
            dt_lineup_free(spawns, count);
            return NULL;
        }
    }
    return spawns;
}
