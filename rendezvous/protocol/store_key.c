/* SPDX-License-Identifier: Apache-2.0 */
#include "rendezvous/protocol/store_key.h"

#include "base/buf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PARTS_MAX 12
#define GROUP_MAX 48
#define BARRIER_KEY "store_based_barrier_key:"

enum meaning_kind {
    OTHER,
    ADDRESS, /* where RANK is reached */
    NCCL_ID, /* which RANK, 0, gives the others */
    BARRIER, /* that the last rank has come */
};

struct meaning {
    enum meaning_kind kind;
    int rank;              /* in GROUP; -1: none is named */
    char group[GROUP_MAX]; /* "": the world */
};

/* A key between its slashes; empty parts are left out. */
struct parts {
    struct dt_bytes at[PARTS_MAX];
    int len;
};

static bool is(struct dt_bytes part, const char *word)
{
    return dt_bytes_equal(part, dt_bytes_of(word));
}

static bool begins(struct dt_bytes part, const char *word)
{
    return part.len >= strlen(word) && memcmp(part.at, word, strlen(word)) == 0;
}

/* -1: PART is no number of a rank. */
static int number_in(struct dt_bytes part)
{
    int n = part.len > 0 && part.len < 8 ? 0 : -1;
    for (size_t i = 0; i < part.len && n >= 0; i++)
        n = part.at[i] >= '0' && part.at[i] <= '9' ? n * 10 + (part.at[i] - '0') : -1;
    return n;
}

/* "3", or "rank_3" as newer versions of gloo have it. */
static int rank_in(struct dt_bytes part)
{
    size_t skip = begins(part, "rank_") ? strlen("rank_") : 0;
    return number_in((struct dt_bytes){part.at + skip, part.len - skip});
}

/* The first key ends where ", " or " and " goes on to others. */
static size_t first_key(const char *keys)
{
    const char *comma = strstr(keys, ", "), *more = strstr(keys, " and ");
    size_t len = strlen(keys);
    if (comma && (size_t)(comma - keys) < len)
        len = (size_t)(comma - keys);
    if (more && (size_t)(more - keys) < len)
        len = (size_t)(more - keys);
    return len;
}

static void split(const char *keys, struct parts *p)
{
    const char *end = keys + first_key(keys);
    p->len = 0;
    for (const char *at = keys; at < end && p->len < PARTS_MAX;) {
        const char *slash = memchr(at, '/', (size_t)(end - at));
        const char *stop = slash ? slash : end;
        if (stop > at)
            p->at[p->len++] = (struct dt_bytes){(const uint8_t *)at, (size_t)(stop - at)};
        at = stop + 1;
    }
}

static void drop(struct parts *p, int count)
{
    memmove(p->at, p->at + count, (size_t)(p->len - count) * sizeof *p->at);
    p->len -= count;
}

static void set_group(struct meaning *k, struct dt_bytes group)
{
    if (!is(group, "0"))
        snprintf(k->group, sizeof k->group, "%.*s", (int)group.len, (const char *)group.at);
}

/* Behind the group: what the backend for a kind of device has called its key. */
static bool read_of_backend(const struct dt_bytes *at, int len, bool cpu, struct meaning *k)
{
    if (len == 2 && is(at[0], "0") && rank_in(at[1]) >= 0) {
        k->kind = ADDRESS;
        k->rank = rank_in(at[1]);
    } else if (len == 1 && !cpu && number_in(at[0]) >= 0) {
        k->kind = NCCL_ID;
        k->rank = 0;
    }
    return k->kind != OTHER;
}

/* The parts behind "default_pg": a group and "0", RANK; or "0", a group that is not the world, a
 * device, and the backend's. */
static bool read_of_group(const struct parts *p, struct meaning *k)
{
    for (int device = 1; device < p->len && device <= 2; device++) {
        bool cpu = is(p->at[device], "cpu");
        if (!cpu && !is(p->at[device], "cuda"))
            continue;
        set_group(k, p->at[device - 1]);
        return read_of_backend(p->at + device + 1, p->len - device - 1, cpu, k);
    }
    if (p->len < 2 || number_in(p->at[0]) < 0)
        return false;
    set_group(k, p->at[0]);
    return read_of_backend(p->at + 1, p->len - 1, false, k);
}

static bool read_barrier(struct dt_bytes last, struct meaning *k)
{
    if (!begins(last, BARRIER_KEY))
        return false;
    struct dt_bytes group = {last.at + strlen(BARRIER_KEY), last.len - strlen(BARRIER_KEY)};
    const uint8_t *colon = memchr(group.at, ':', group.len);
    if (colon)
        group.len = (size_t)(colon - group.at);
    k->kind = BARRIER;
    set_group(k, group);
    return true;
}

/* Reads the first of KEYS, as in a stance. */
static void read_key(const char *keys, struct meaning *out)
{
    struct parts p;
    *out = (struct meaning){.rank = -1};
    split(keys, &p);
    if (p.len >= 2 && is(p.at[0], "worker") && begins(p.at[1], "attempt_"))
        drop(&p, 2);
    if (p.len == 0)
        return;
    struct dt_bytes last = p.at[p.len - 1];
    bool of_torch = is(p.at[0], "default_pg");
    if (of_torch)
        drop(&p, 1);
    if ((of_torch && read_of_group(&p, out)) || read_barrier(last, out))
        return;
    *out = (struct meaning){.rank = begins(last, "rank_") ? rank_in(last) : -1};
}

int dt_store_key_setter(const char *keys)
{
    struct meaning k;
    read_key(keys, &k);
    return *k.group ? -1 : k.rank;
}

bool dt_store_key_same(const char *a, const char *b)
{
    struct meaning x, y;
    read_key(a, &x);
    read_key(b, &y);
    if (x.kind == OTHER || y.kind == OTHER)
        return strcmp(a, b) == 0;
    return x.kind == y.kind && x.rank == y.rank && strcmp(x.group, y.group) == 0;
}

const char *dt_store_key_words(const char *keys, char out[DT_STORE_KEY_WORDS])
{
    struct meaning k;
    char of_group[GROUP_MAX + 16] = "";
    read_key(keys, &k);
    if (*k.group)
        snprintf(of_group, sizeof of_group, " of group %s", k.group);
    *out = '\0';
    switch (k.kind) {
    case OTHER:
        break;
    case ADDRESS:
        if (*k.group)
            snprintf(out, DT_STORE_KEY_WORDS, "the address of rank %d%s", k.rank, of_group);
        else
            snprintf(out, DT_STORE_KEY_WORDS, "rank %d's address", k.rank);
        break;
    case NCCL_ID:
        snprintf(out, DT_STORE_KEY_WORDS, "NCCL's id, which rank %d%s gives", k.rank, of_group);
        break;
    case BARRIER:
        snprintf(out, DT_STORE_KEY_WORDS, "the last rank%s to come", of_group);
        break;
    }
    return out;
}
