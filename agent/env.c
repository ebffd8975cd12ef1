/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/env.h"

#include "base/auto.h"
#include "base/buf.h"
#include "base/signame.h"
#include "rendezvous/protocol/page.h"
#include "rendezvous/protocol/vault_fds.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The list while it is made; sticky like a buffer. */
struct list {
    char **at;
    size_t len, size;
    bool bad;
};

static int no_memory(struct dt_err *err)
{
    return dt_err_set(err, DT_E_MEMORY, "no memory for a worker's environment and arguments");
}

/* Takes ENTRY over. */
static void append(struct list *l, char *entry)
{
    if (entry && l->len + 1 >= l->size) {
        size_t size = l->size ? 2 * l->size : 64;
        char **at = realloc(l->at, size * sizeof *at);
        l->at = at ? at : l->at;
        l->size = at ? size : l->size;
        l->bad = l->bad || !at;
    }
    if (!entry || l->bad) {
        l->bad = true;
        free(entry);
        return;
    }
    l->at[l->len++] = entry;
    l->at[l->len] = NULL;
}

static char **finish(struct list *l, struct dt_err *err)
{
    if (!l->bad)
        return l->at;
    dt_env_free(l->at);
    no_memory(err);
    return NULL;
}

static size_t name_len(const char *entry)
{
    return strcspn(entry, "=");
}

/* Where the list, or an environ, has NAME, of LEN bytes; NULL: nowhere. */
static char *const *find(char *const *at, const char *name, size_t len)
{
    for (; at && *at; at++)
        if (name_len(*at) == len && memcmp(*at, name, len) == 0)
            return at;
    return NULL;
}

static const char *value_in(char *const *base, const char *name)
{
    char *const *at = find(base, name, strlen(name));
    return at && (*at)[strlen(name)] == '=' ? *at + strlen(name) + 1 : NULL;
}

static void copy_base(struct list *l, char *const *base)
{
    for (; *base && !l->bad; base++)
        if (!find(l->at, *base, name_len(*base)))
            append(l, strdup(*base));
}

static void set(struct list *l, const char *name, const char *value)
{
    char *entry;
    if (l->bad || asprintf(&entry, "%s=%s", name, value) < 0) {
        l->bad = true;
        return;
    }
    /* Ours: the list is, what find() gives is for looking only. */
    char **old = (char **)find(l->at, name, strlen(name));
    if (!old) {
        append(l, entry);
        return;
    }
    free(*old);
    *old = entry;
}

static void set_int(struct list *l, const char *name, int value)
{
    char text[16];
    snprintf(text, sizeof text, "%d", value);
    set(l, name, text);
}

/* What an outer job of dtrun has put there is not about this one. */
static void unset(struct list *l, const char *name)
{
    char **at = (char **)find(l->at, name, strlen(name));
    if (!at)
        return;
    free(*at);
    memmove(at, at + 1, (size_t)(l->at + l->len - at) * sizeof *at);
    l->len--;
}

static void set_default(struct list *l, const char *name, const char *value)
{
    if (!value_in(l->at, name))
        set(l, name, value);
}

/* The RANKth of a list of devices, which may be numbers or UUIDs; without a list its number. */
static int put_device(const char *devices, int rank, struct dt_buf *out, struct dt_err *err)
{
    int n = 0;
    if (!devices) {
        dt_buf_printf(out, "%d", rank);
        return 0;
    }
    for (const char *at = devices; *at;) {
        size_t len = strcspn(at, ",");
        if (n++ == rank) {
            dt_buf_put(out, at, len);
            return 0;
        }
        at += len + (at[len] == ',');
    }
    return dt_err_set(
        err, DT_E_RUNTIME,
        "--virtual-local-rank: CUDA_VISIBLE_DEVICES=%.100s has %d device%s, worker %d "
        "has none; list more of them or lower --nproc-per-node",
        devices, n, n == 1 ? "" : "s", rank);
}

static int set_device(struct list *l, int rank, struct dt_err *err)
{
    struct dt_buf device = {0};
    int rc = put_device(value_in(l->at, "CUDA_VISIBLE_DEVICES"), rank, &device, err);
    if (rc == 0)
        set(l, "CUDA_VISIBLE_DEVICES", dt_buf_cstr(&device));
    l->bad = l->bad || device.bad;
    dt_buf_finish(&device);
    return rc;
}

static void set_place(struct list *l, const struct dt_plan *plan, const struct dt_world *world,
                      int local_rank)
{
    set_int(l, "LOCAL_RANK", plan->virtual_local_rank ? 0 : local_rank);
    set_int(l, "RANK", world->first_rank + local_rank);
    set_int(l, "GROUP_RANK", world->group_rank);
    set_int(l, "ROLE_RANK", world->first_role_rank + local_rank);
    set(l, "ROLE_NAME", plan->role);
    set_int(l, "LOCAL_WORLD_SIZE", plan->nproc);
    set_int(l, "WORLD_SIZE", world->size);
    set_int(l, "GROUP_WORLD_SIZE", world->group_size);
    set_int(l, "ROLE_WORLD_SIZE", world->role_size);
    set(l, "MASTER_ADDR", world->master_addr);
    set_int(l, "MASTER_PORT", world->master_port);
}

/* Where the worker was before this round, for who has shards to move. */
static void set_previous(struct list *l, const struct dt_world *world, int local_rank)
{
    unset(l, "DTRUN_PREV_RANK");
    unset(l, "DTRUN_PREV_WORLD_SIZE");
    if (world->prev_size <= 0 || world->prev_first_rank < 0)
        return;
    set_int(l, "DTRUN_PREV_RANK", world->prev_first_rank + local_rank);
    set_int(l, "DTRUN_PREV_WORLD_SIZE", world->prev_size);
}

/* The number of an outer job's file is another thing's here, or nothing's. */
static void set_fd(struct list *l, const char *name, int fd)
{
    unset(l, name);
    if (fd > 0)
        set_int(l, name, fd);
}

/* Where it is to dump, and the pipe by which it is asked. */
static void set_flight(struct list *l, const struct dt_plan *plan, const char *prefix)
{
    if (!prefix)
        return;
    if (plan->flight_buffer)
        set(l, DT_ENV_FLIGHT_BUFFER, DT_ENV_FLIGHT_CALLS);
    set(l, plan->flight_dump, prefix);
    set(l, DT_ENV_FLIGHT_PIPE, prefix);
}

/* Without a page NCCL has nobody to tell. */
static void set_nccl(struct list *l, const struct dt_plan *plan, bool has_page)
{
    unset(l, DT_NCCL_EVENTS_ENV);
    if (!plan->nccl_profiler || !has_page)
        return;
    set(l, "NCCL_PROFILER_PLUGIN", plan->nccl_profiler);
    if (plan->nccl_events == DT_NCCL_KERNELS)
        set(l, DT_NCCL_EVENTS_ENV, DT_NCCL_EVENTS_KERNELS);
}

static void set_signals(struct list *l, uint64_t mask)
{
    struct dt_buf names = {0};
    dt_signame_list(mask, &names);
    set(l, "TORCHELASTIC_SIGNALS_TO_HANDLE", dt_buf_cstr(&names));
    l->bad = l->bad || names.bad;
    dt_buf_finish(&names);
}

static void set_run(struct list *l, const struct dt_plan *plan, const struct dt_world *world,
                    const struct dt_env_worker *worker)
{
    set_int(l, "TORCHELASTIC_RESTART_COUNT", worker->restart_count);
    set_int(l, "TORCHELASTIC_MAX_RESTARTS", plan->max_restarts);
    set(l, "TORCHELASTIC_RUN_ID", plan->run_id);
    set(l, "TORCHELASTIC_USE_AGENT_STORE", world->store_is_served ? "True" : "False");
    set_default(l, "TORCH_NCCL_ASYNC_ERROR_HANDLING", "1");
    if (plan->omp_threads > 0 && !value_in(l->at, "OMP_NUM_THREADS"))
        set_int(l, "OMP_NUM_THREADS", plan->omp_threads);
    if (plan->ctype)
        set(l, "LC_CTYPE", plan->ctype);
    /* Empty, not absent: PyTorch writes no error file for either, and ours is not the worker's. */
    set(l, "TORCHELASTIC_ERROR_FILE", worker->error_file ? worker->error_file : "");
    if (worker->timer_file)
        set(l, "TORCHELASTIC_TIMER_FILE", worker->timer_file);
    set_signals(l, plan->stop_signals);
    set(l, "DTRUN", DT_VERSION);
    set_int(l, "DTRUN_ROUND", world->round);
    set_int(l, "DTRUN_RESTART_COUNT", worker->restart_count);
    unset(l, "DTRUN_LOG_DIR");
    if (worker->log_dir)
        set(l, "DTRUN_LOG_DIR", worker->log_dir);
    set_previous(l, world, worker->local_rank);
    set_fd(l, DT_PAGE_ENV, worker->progress_fd);
    set_fd(l, DT_VAULT_OWN_ENV, worker->vault_own_fd);
    set_fd(l, DT_VAULT_PEER_ENV, worker->vault_peer_fd);
    set_flight(l, plan, worker->flight);
    set_nccl(l, plan, worker->progress_fd > 0);
}

char **dt_env_make(const struct dt_plan *plan, const struct dt_world *world,
                   const struct dt_env_worker *worker, char *const *base, struct dt_err *err)
{
    struct list l = {0};
    copy_base(&l, base);
    set_place(&l, plan, world, worker->local_rank);
    set_run(&l, plan, world, worker);
    if (plan->virtual_local_rank && set_device(&l, worker->local_rank, err) < 0) {
        dt_env_free(l.at);
        return NULL;
    }
    return finish(&l, err);
}

void dt_env_free(char **list)
{
    for (char **at = list; at && *at; at++)
        free(*at);
    free(list);
}

/* Length of the identifier at S. ASCII only, as Python's pattern has it in every locale. */
static size_t identifier_len(const char *s)
{
    static const char letters[] = "_abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    static const char all[] = "_abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    return *s && strchr(letters, *s) ? strspn(s, all) : 0;
}

static const char *value_of(const char *name, size_t len, const char *const *names,
                            const char *const *values)
{
    for (size_t i = 0; names[i]; i++)
        if (strlen(names[i]) == len && memcmp(names[i], name, len) == 0)
            return values[i];
    return NULL;
}

/* Puts what the "$..." at S stands for; returns how much of it that was. A name that is not known
 * goes as a whole: "${a$b}" has no braces for "a", but "$a$b" has two names. */
static size_t put_dollar(const char *s, const char *const *names, const char *const *values,
                         struct dt_buf *out)
{
    bool braced = s[1] == '{';
    const char *name = s + 1 + braced;
    size_t len = identifier_len(name), whole = 1 + len + 2 * (size_t)braced;
    const char *value;
    if (s[1] == '$') {
        dt_buf_put_u8(out, '$');
        return 2;
    }
    if (len == 0 || (braced && name[len] != '}')) {
        dt_buf_put_u8(out, '$');
        return 1;
    }
    value = value_of(name, len, names, values);
    if (value)
        dt_buf_put_str(out, value);
    else
        dt_buf_put(out, s, whole);
    return whole;
}

char *dt_env_substitute(const char *text, const char *const *names, const char *const *values)
{
    struct dt_buf out = {0};
    while (*text) {
        size_t plain = strcspn(text, "$");
        dt_buf_put(&out, text, plain);
        text += plain;
        if (*text)
            text += put_dollar(text, names, values, &out);
    }
    const char *made = dt_buf_cstr(&out);
    char *copy = out.bad ? NULL : strdup(made);
    dt_buf_finish(&out);
    return copy;
}

char **dt_env_argv(const struct dt_plan *plan, int local_rank, struct dt_err *err)
{
    char rank[16];
    const char *const names[] = {"local_rank", NULL}, *const values[] = {rank, NULL};
    struct list l = {0};
    snprintf(rank, sizeof rank, "%d", local_rank);
    for (char *const *arg = plan->argv; *arg && !l.bad; arg++)
        append(&l, arg == plan->argv ? strdup(*arg) : dt_env_substitute(*arg, names, values));
    return finish(&l, err);
}
