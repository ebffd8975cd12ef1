/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_runtime/store_meeting.h"

#include "base/auto.h"
#include "rendezvous/protocol/c10d.h"
#include "rendezvous/protocol/sync_client.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define KEY_MAX 512
#define NAMED 8 /* missing ranks, in an error */

struct dt_store_meeting {
    struct dt_meeting base;
    struct dt_sync_client *client;
    int64_t epoch;
};

/* What a rank says of itself: text, so that hosts of any byte order read it. */
struct card {
    char text[160];
};

static struct dt_bytes make_key(const struct dt_store_meeting *m, const char *name,
                                char out[KEY_MAX])
{
    int n = snprintf(out, KEY_MAX, "/dtrun/rt/%" PRId64 "/%s", m->epoch, name);
    return (struct dt_bytes){(const uint8_t *)out, (size_t)n < KEY_MAX ? (size_t)n : KEY_MAX - 1};
}

static int set(struct dt_meeting *base, const char *name, const void *value, size_t len,
               struct dt_err *err)
{
    struct dt_store_meeting *m = (struct dt_store_meeting *)base;
    char key[KEY_MAX];
    return dt_sync_client_set(m->client, make_key(m, name, key), (struct dt_bytes){value, len},
                              err);
}

static int get(struct dt_meeting *base, const char *name, void *value, size_t len, dt_ms timeout,
               struct dt_err *err)
{
    struct dt_store_meeting *m = (struct dt_store_meeting *)base;
    char text[KEY_MAX];
    struct dt_bytes key = make_key(m, name, text);
    struct dt_buf got = {0};
    int rc = dt_sync_client_wait(m->client, &key, 1, timeout, err);
    if (rc == 0)
        rc = dt_sync_client_get(m->client, key, &got, err);
    if (rc == 0 && got.len != len)
        rc = dt_err_set(err, DT_E_PROTOCOL,
                        "the store has %zu bytes under \"%s\" where %zu belong: ranks of different "
                        "versions of dtrun in one job",
                        got.len, text, len);
    if (rc == 0 && len > 0)
        memcpy(value, got.at, len);
    dt_buf_finish(&got);
    return rc;
}

struct dt_store_meeting *dt_store_meeting_open(const struct dt_job_env *env, dt_ms timeout,
                                               struct dt_err *err)
{
    struct dt_store_meeting *m = calloc(1, sizeof *m);
    if (!m) {
        dt_err_set(err, DT_E_MEMORY, "no memory to meet the other ranks");
        return NULL;
    }
    m->base = (struct dt_meeting){set, get};
    m->epoch = env->epoch;
    m->client = dt_sync_client_open(env->store, timeout, err);
    if (!m->client) {
        dt_err_wrap(err, "rank %d does not reach the job's store (MASTER_ADDR, MASTER_PORT)",
                    env->rank);
        free(m);
        return NULL;
    }
    return m;
}

void dt_store_meeting_close(struct dt_store_meeting *m)
{
    if (!m)
        return;
    dt_sync_client_close(m->client);
    free(m);
}

struct dt_meeting *dt_store_meeting_base(struct dt_store_meeting *m)
{
    return &m->base;
}

/* -- cards ------------------------------------------------------------------------------------ */

/* Which kernel this is; containers of one machine have the same. */
static void read_boot_id(char out[40])
{
    DT_AUTO_FD fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, out, 36);
    out[n > 0 ? n : 0] = '\0';
    out[strcspn(out, "\n ")] = '\0';
    if (!*out)
        strcpy(out, "unknown");
}

static void write_card(const struct dt_job_env *env, struct card *c)
{
    char boot[40];
    struct stat ns = {0};
    *c = (struct card){0};
    read_boot_id(boot);
    if (stat("/proc/self/ns/pid", &ns) < 0)
        ns.st_ino = 0;
    /* The process id last: what is before it says which host. */
    snprintf(c->text, sizeof c->text, "%d %d %s %ju %d", env->world, env->group, boot,
             (uintmax_t)ns.st_ino, (int)getpid());
}

static size_t host_len(const struct card *c)
{
    const char *last = strrchr(c->text, ' ');
    return last ? (size_t)(last - c->text) : strlen(c->text);
}

static bool same_host(const struct card *a, const struct card *b)
{
    return host_len(a) == host_len(b) && memcmp(a->text, b->text, host_len(a)) == 0;
}

/* Ranks come in the order of their hosts almost always, so the last one's is looked at first. */
static int host_of(const struct card *cards, const struct dt_coll_member *members, int r,
                   int *hosts)
{
    for (int q = r - 1; q >= 0; q--)
        if (same_host(&cards[q], &cards[r]))
            return members[q].host;
    return (*hosts)++;
}

static int say_sizes_differ(const struct dt_job_env *env, int rank, int size, struct dt_err *err)
{
    return dt_err_set(err, DT_E_PROTOCOL,
                      "rank %d has a WORLD_SIZE of %d, rank %d has %d: two jobs use one store at "
                      "%.100s; give each its own --master-port or --rdzv-id",
                      rank, size, env->rank, env->world, env->store);
}

static struct dt_coll_member *sort_out(const struct card *cards, const struct dt_job_env *env,
                                       struct dt_err *err)
{
    struct dt_coll_member *members = calloc((size_t)env->world, sizeof *members);
    int hosts = 0;
    if (!members) {
        dt_err_set(err, DT_E_MEMORY, "no memory for a world of %d ranks", env->world);
        return NULL;
    }
    for (int r = 0; r < env->world; r++) {
        if (atoi(cards[r].text) != env->world) {
            say_sizes_differ(env, r, atoi(cards[r].text), err);
            free(members);
            return NULL;
        }
        members[r].world_rank = r;
        members[r].host = host_of(cards, members, r, &hosts);
        members[r].pid = atoi(cards[r].text + host_len(&cards[r]));
    }
    return members;
}

static struct dt_bytes card_key(const struct dt_store_meeting *m, int rank, char out[KEY_MAX])
{
    char name[32];
    snprintf(name, sizeof name, "rank/%d", rank);
    return make_key(m, name, out);
}

/* Set once: who comes second under one rank is told so, rather than both met as one. */
static int show_card(struct dt_store_meeting *m, const struct dt_job_env *env, struct dt_err *err)
{
    char key[KEY_MAX];
    struct card mine;
    struct dt_buf stands = {0};
    write_card(env, &mine);
    struct dt_bytes card = {(const uint8_t *)&mine, sizeof mine};
    int rc =
        dt_sync_client_compare_set(m->client, card_key(m, env->rank, key),
                                   (struct dt_bytes){(const uint8_t *)"", 0}, card, &stands, err);
    if (rc == 0 && !dt_bytes_equal((struct dt_bytes){stands.at, stands.len}, card))
        rc = dt_err_set(err, DT_E_RUNTIME,
                        "another process has been rank %d of this world (epoch %" PRId64
                        ") already: two workers were started with RANK=%d, or one was started "
                        "again in the same round",
                        env->rank, env->epoch, env->rank);
    dt_buf_finish(&stands);
    return rc;
}

/* Whether who has come means the same world; else those who are missing never were to come. */
static int check_size_of(struct dt_store_meeting *m, const struct dt_job_env *env, int rank,
                         struct dt_bytes key, struct dt_err *err)
{
    struct dt_buf got = {0};
    int rc = 0, size = env->world;
    if (dt_sync_client_get(m->client, key, &got, NULL) == 0 && got.len == sizeof(struct card) &&
        got.at[got.len - 1] == '\0')
        size = atoi((const char *)got.at);
    if (size != env->world)
        rc = say_sizes_differ(env, rank, size, err);
    dt_buf_finish(&got);
    return rc;
}

/* "ranks 3, 5, 6 and 2 more of 16" */
static int name_missing(struct dt_store_meeting *m, const struct dt_job_env *env, dt_ms timeout,
                        struct dt_err *err)
{
    char names[160] = "", key[KEY_MAX];
    size_t at = 0;
    int missing = 0;
    for (int r = 0; r < env->world; r++) {
        struct dt_bytes one = card_key(m, r, key);
        bool there = true;
        if (dt_sync_client_check(m->client, &one, 1, &there, NULL) < 0)
            continue;
        if (there && check_size_of(m, env, r, one, err) < 0)
            return -1;
        if (there)
            continue;
        if (missing++ < NAMED)
            at +=
                (size_t)snprintf(names + at, sizeof names - at, "%s%d", missing > 1 ? ", " : "", r);
    }
    if (missing > NAMED)
        snprintf(names + at, sizeof names - at, " and %d more", missing - NAMED);
    return dt_err_set(err, DT_E_TIMEOUT,
                      "rank%s %s of %d did not come to the job's store at %.100s in %" PRId64
                      " s; look at what %s printed, or give a longer start timeout",
                      missing == 1 ? "" : "s", missing ? names : "(all came just now)", env->world,
                      env->store, timeout / DT_SECOND,
                      missing == 1 ? "that worker" : "those workers");
}

static int take_cards(const struct dt_buf *values, struct card *cards, int world,
                      struct dt_err *err)
{
    struct dt_bytes rest = {values->at, values->len}, one;
    for (int r = 0; r < world; r++) {
        if (!dt_c10d_next_blob(&rest, &one) || one.len != sizeof *cards ||
            one.at[one.len - 1] != '\0')
            return dt_err_set(err, DT_E_PROTOCOL,
                              "what rank %d says of itself cannot be read: ranks of different "
                              "versions of dtrun in one job",
                              r);
        memcpy(&cards[r], one.at, one.len);
    }
    return 0;
}

static int collect_cards(struct dt_store_meeting *m, const struct dt_job_env *env,
                         struct card *cards, dt_ms timeout, struct dt_err *err)
{
    size_t n = (size_t)env->world;
    DT_AUTO_FREE struct dt_bytes *keys = calloc(n, sizeof *keys);
    DT_AUTO_FREE char *text = malloc(n * KEY_MAX);
    struct dt_buf values = {0};
    if (!keys || !text)
        return dt_err_set(err, DT_E_MEMORY, "no memory for a world of %d ranks", env->world);
    for (size_t r = 0; r < n; r++)
        keys[r] = card_key(m, (int)r, text + r * KEY_MAX);
    struct dt_err why = {0};
    int rc = dt_sync_client_wait(m->client, keys, n, timeout, &why);
    if (rc < 0 && why.code == DT_E_TIMEOUT)
        return name_missing(m, env, timeout, err);
    if (rc == 0)
        rc = dt_sync_client_multi_get(m->client, keys, n, &values, &why);
    if (rc < 0)
        dt_err_set(err, why.code, "%s", why.text);
    else
        rc = take_cards(&values, cards, env->world, err);
    dt_buf_finish(&values);
    return rc;
}

struct dt_coll_member *dt_store_meeting_members(struct dt_store_meeting *m,
                                                const struct dt_job_env *env, dt_ms timeout,
                                                struct dt_err *err)
{
    DT_AUTO_FREE struct card *cards = calloc((size_t)env->world, sizeof *cards);
    if (!cards) {
        dt_err_set(err, DT_E_MEMORY, "no memory for a world of %d ranks", env->world);
        return NULL;
    }
    if (show_card(m, env, err) < 0 || collect_cards(m, env, cards, timeout, err) < 0)
        return NULL;
    return sort_out(cards, env, err);
}
