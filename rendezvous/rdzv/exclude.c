/* SPDX-License-Identifier: Apache-2.0 */
#include "rendezvous/rdzv/exclude.h"

#include "base/chance.h"
#include "base/str.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RECORD_VERSION 1
/* Nothing that is in force lasts longer. */
#define LONGEST (DT_EXCLUDE_MOST + DT_PROBATION)

void dt_exclude_init(struct dt_exclude *x, uint64_t seed)
{
    *x = (struct dt_exclude){.jitter = seed};
    dt_map_init(&x->nodes, offsetof(struct dt_excluded, name), seed);
    dt_list_init(&x->banned);
    dt_list_init(&x->drained);
}

void dt_exclude_finish(struct dt_exclude *x)
{
    dt_map_finish(&x->nodes, free);
    dt_list_init(&x->banned);
    dt_list_init(&x->drained);
    x->drained_count = 0;
}

/* A name that is too long is cut the same way whenever it is met. */
static struct dt_bytes key_of(const char *node)
{
    return (struct dt_bytes){(const uint8_t *)node, strnlen(node, DT_NODE_NAME_MAX - 1)};
}

static struct dt_excluded *find(const struct dt_exclude *x, const char *node)
{
    return dt_map_find(&x->nodes, key_of(node));
}

const struct dt_excluded *dt_exclude_find(const struct dt_exclude *x, const char *node)
{
    return find(x, node);
}

static bool is_live(const struct dt_excluded *e, int strike, dt_ms now)
{
    return now - e->strike[strike].at < DT_STRIKE_WINDOW;
}

static int count_strikes(const struct dt_excluded *e, dt_ms now)
{
    int live = 0;
    for (int i = 0; i < e->strikes; i++)
        live += is_live(e, i, now);
    return live;
}

static bool has_strike_of(const struct dt_excluded *e, uint64_t signature, dt_ms now)
{
    for (int i = 0; i < e->strikes; i++)
        if (e->strike[i].signature == signature && is_live(e, i, now))
            return true;
    return false;
}

/* Drops strikes that are too old, and those of SIGNATURE unless that is 0. */
static void drop_strikes(struct dt_excluded *e, uint64_t signature, dt_ms now)
{
    int kept = 0;
    for (int i = 0; i < e->strikes; i++)
        if (is_live(e, i, now) && (signature == 0 || e->strike[i].signature != signature))
            e->strike[kept++] = e->strike[i];
    e->strikes = kept;
}

static void add_strike(struct dt_excluded *e, uint64_t signature, dt_ms now)
{
    drop_strikes(e, 0, now);
    if (e->strikes == DT_STRIKES_KEPT)
        memmove(e->strike, e->strike + 1, (size_t)--e->strikes * sizeof *e->strike);
    e->strike[e->strikes].at = now;
    e->strike[e->strikes++].signature = signature;
}

static bool anything_in_force(const struct dt_excluded *e, dt_ms now)
{
    return e->drained || e->until > now || e->probation > now || count_strikes(e, now) > 0;
}

static void end_ban(struct dt_excluded *e)
{
    dt_list_remove(&e->in_banned);
    e->since = e->until = 0;
    e->hard = false;
    e->all_of = 0;
    e->why[0] = '\0';
}

static void set_drained(struct dt_exclude *x, struct dt_excluded *e, bool drained)
{
    x->drained_count -= dt_node_linked(&e->in_drained);
    dt_list_remove(&e->in_drained);
    e->drained = drained;
    if (drained)
        dt_list_append(&x->drained, &e->in_drained);
    x->drained_count += drained;
}

static void forget(struct dt_exclude *x, struct dt_excluded *e)
{
    end_ban(e);
    set_drained(x, e, false);
    dt_map_remove(&x->nodes, key_of(e->name));
    free(e);
}

static bool forget_one(struct dt_exclude *x, dt_ms now)
{
    size_t cursor = 0;
    for (struct dt_excluded *e; (e = dt_map_next(&x->nodes, &cursor));) {
        if (anything_in_force(e, now))
            continue;
        forget(x, e);
        return true;
    }
    return false;
}

/* To be DRAINED, or for something it did. */
static struct dt_excluded *find_or_add(struct dt_exclude *x, const char *node, bool drained,
                                       dt_ms now)
{
    struct dt_excluded *e = find(x, node);
    if (drained && x->drained_count >= DT_NODES_REMEMBERED && (!e || !e->drained))
        return NULL;
    if (e)
        return e;
    bool is_full = x->nodes.count - x->drained_count >= DT_NODES_REMEMBERED;
    if (!drained && is_full && !forget_one(x, now))
        return NULL;
    e = calloc(1, sizeof *e);
    if (!e)
        return NULL;
    struct dt_bytes key = key_of(node);
    dt_bytes_copy(e->name, key);
    dt_node_init(&e->in_banned);
    dt_node_init(&e->in_drained);
    if (dt_map_insert(&x->nodes, e, (uint32_t)key.len) == 0)
        return e;
    free(e);
    return NULL;
}

/* FNV-1a: the journal holds it, so it must be the same in each process. 0 stands for none. */
static uint64_t hash_of(const char *signature)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325);
    if (!*signature)
        return 0;
    for (; *signature; signature++)
        h = (h ^ (uint8_t)*signature) * UINT64_C(0x100000001b3);
    return h ? h : 1;
}

static dt_ms ban_length(struct dt_exclude *x, dt_ms first, int bans)
{
    dt_ms length = first < 1 ? 1 : first;
    while (--bans > 0 && length < DT_EXCLUDE_MOST)
        length *= 2;
    if (length > DT_EXCLUDE_MOST)
        length = DT_EXCLUDE_MOST;
    dt_ms jitter = (dt_ms)(dt_chance(&x->jitter) % (uint64_t)(length / 8 + 1));
    /* At the limit nodes should not all come back together either. */
    return length + jitter <= DT_EXCLUDE_MOST ? length + jitter : DT_EXCLUDE_MOST - jitter;
}

/* A quarantine that begins while there is one takes its place, but is not a further one: who is out
 * can hardly be to blame for being found broken again. It never shortens it. */
static void ban(struct dt_exclude *x, struct dt_excluded *e, dt_ms length, dt_ms now)
{
    if (e->until <= now && e->bans < INT_MAX)
        e->bans++;
    dt_ms until = now + ban_length(x, length, e->bans);
    if (until > e->until)
        e->until = until;
    e->since = now;
    e->probation = e->until + DT_PROBATION;
    if (!dt_node_linked(&e->in_banned))
        dt_list_append(&x->banned, &e->in_banned);
}

/* As if it had never been. Of an earlier one's probation only the longest that it may be is known.
 */
static void take_ban_back(struct dt_excluded *e)
{
    e->bans--;
    e->probation = e->bans > 0 ? e->since + DT_PROBATION : 0;
    end_ban(e);
}

static void end_old_bans(struct dt_exclude *x, dt_ms now)
{
    dt_list_each(&x->banned, n)
    {
        struct dt_excluded *e = dt_container_of(n, struct dt_excluded, in_banned);
        if (e->until <= now)
            end_ban(e);
    }
}

static bool is_everywhere(const struct dt_exclude *x, uint64_t signature, dt_ms now)
{
    int nodes = 0;
    size_t cursor = 0;
    if (signature == 0)
        return false;
    for (const struct dt_excluded *e; (e = dt_map_next(&x->nodes, &cursor));)
        if (has_strike_of(e, signature, now) && ++nodes == DT_STRIKE_NODES)
            return true;
    return false;
}

static void forgive(struct dt_exclude *x, uint64_t signature, dt_ms now)
{
    size_t cursor = 0;
    for (struct dt_excluded *e; (e = dt_map_next(&x->nodes, &cursor));) {
        if (!has_strike_of(e, signature, now))
            continue;
        drop_strikes(e, signature, now);
        if (e->all_of == signature)
            take_ban_back(e);
    }
}

size_t dt_exclude_forgive_lost(struct dt_exclude *x, const char *run, dt_ms since, dt_ms now)
{
    size_t forgiven = 0, cursor = 0;
    uint64_t hash = hash_of(run);
    for (struct dt_excluded *e; (e = dt_map_next(&x->nodes, &cursor));) {
        int last = e->strikes - 1;
        if (last < 0 || e->strike[last].signature != hash || e->strike[last].at < since)
            continue;
        e->strikes--;
        forgiven++;
        if (e->until > now && e->since >= since && !e->hard)
            take_ban_back(e);
    }
    return forgiven;
}

/* 0 when they differ, or are of unknown signature. */
static uint64_t common_signature(const struct dt_excluded *e)
{
    uint64_t signature = e->strike[0].signature;
    for (int i = 1; i < e->strikes; i++)
        if (e->strike[i].signature != signature)
            return 0;
    return signature;
}

static void explain(struct dt_excluded *e, const char *what, const char *signature)
{
    char shown[200];
    dt_str_printable(dt_bytes_of(signature), shown, sizeof shown);
    snprintf(e->why, sizeof e->why, "%s%s%s", what, *shown ? ": " : "", shown);
}

static enum dt_exclude_outcome strike(struct dt_exclude *x, struct dt_excluded *e,
                                      enum dt_evidence evidence, const char *signature, int limit,
                                      dt_ms length, dt_ms now)
{
    char what[100];
    bool lost = evidence == DT_EVIDENCE_OFFLINE; /* SIGNATURE is its run */
    const char *how = lost ? "it went silent" : "it crashed";
    uint64_t hash = hash_of(signature);
    add_strike(e, hash, now);
    if (!lost && is_everywhere(x, hash, now)) {
        forgive(x, hash, now);
        return DT_EXCLUDE_FORGIVEN;
    }
    if (e->until > now)
        return DT_EXCLUDE_STRIKE;
    if (e->probation > now) {
        e->all_of = hash;
        snprintf(what, sizeof what, "a strike while on probation, %s", how);
    } else if (e->strikes >= (limit < DT_STRIKES_KEPT ? limit : DT_STRIKES_KEPT)) {
        e->all_of = common_signature(e);
        snprintf(what, sizeof what, "%d strikes within an hour, at last %s", e->strikes, how);
    } else {
        return DT_EXCLUDE_STRIKE;
    }
    ban(x, e, length, now);
    explain(e, what, lost ? "" : signature);
    return DT_EXCLUDE_BANNED;
}

enum dt_exclude_outcome dt_exclude_note(struct dt_exclude *x, const char *node,
                                        enum dt_evidence evidence, const char *signature, int limit,
                                        dt_ms length, dt_ms now)
{
    end_old_bans(x, now);
    if (limit <= 0 || evidence == DT_EVIDENCE_PROGRAM || evidence == DT_EVIDENCE_PREEMPTED)
        return DT_EXCLUDE_NOTHING;
    struct dt_excluded *e = find_or_add(x, node, false, now);
    if (!e)
        return DT_EXCLUDE_NO_MEMORY;
    if (e->drained)
        return DT_EXCLUDE_NOTHING; /* whoever drained it is working on it */
    if (evidence != DT_EVIDENCE_HARDWARE)
        return strike(x, e, evidence, signature, limit, length, now);
    ban(x, e, length, now);
    e->hard = true;
    e->all_of = 0;
    explain(e, "its hardware failed", signature);
    return DT_EXCLUDE_BANNED;
}

enum dt_exclude_outcome dt_exclude_reject(struct dt_exclude *x, const char *node, const char *text,
                                          dt_ms length, dt_ms now)
{
    end_old_bans(x, now);
    struct dt_excluded *e = find_or_add(x, node, false, now);
    if (!e)
        return DT_EXCLUDE_NO_MEMORY;
    if (e->drained)
        return DT_EXCLUDE_NOTHING;
    ban(x, e, length, now);
    e->all_of = 0;
    explain(e, "it failed as soon as it had joined", text);
    return DT_EXCLUDE_BANNED;
}

bool dt_exclude_is_out(const struct dt_exclude *x, const char *node, dt_ms now, const char **why)
{
    const struct dt_excluded *e = find(x, node);
    if (!e || (!e->drained && e->until <= now))
        return false;
    if (why)
        *why = e->drained ? e->drained_why : e->why;
    return true;
}

void dt_exclude_describe(const struct dt_exclude *x, const char *node, dt_ms now, char *out,
                         size_t size)
{
    const struct dt_excluded *e = find(x, node);
    char time[32];
    *out = '\0';
    if (e && e->drained)
        snprintf(out, size, "until \"dtrun-ctl node undrain %s\": %s", e->name, e->drained_why);
    else if (e && e->until > now)
        snprintf(out, size, "for %s (\"dtrun-ctl node undrain %s\" ends that): %s",
                 dt_str_from_duration(e->until - now, time, sizeof time), e->name, e->why);
}

bool dt_exclude_is_drained(const struct dt_exclude *x, const char *node)
{
    const struct dt_excluded *e = find(x, node);
    return e && e->drained;
}

/* From 0 up: strikes, quarantine by strikes that ends sooner or later, by hard evidence, drained.
 */
int64_t dt_exclude_badness(const struct dt_exclude *x, const char *node, dt_ms now)
{
    const struct dt_excluded *e = find(x, node);
    if (!e)
        return 0;
    if (e->drained)
        return INT64_MAX;
    if (e->until <= now)
        return count_strikes(e, now);
    return DT_STRIKES_KEPT + (e->until - now) + (e->hard ? DT_EXCLUDE_MOST : 0);
}

dt_ms dt_exclude_next(const struct dt_exclude *x, dt_ms now)
{
    dt_ms next = DT_FOREVER;
    dt_list_each(&x->banned, n)
    {
        const struct dt_excluded *e = dt_container_of(n, struct dt_excluded, in_banned);
        if (e->until > now && e->until < next)
            next = e->until;
    }
    return next;
}

int dt_exclude_drain(struct dt_exclude *x, const char *node, bool undo, const char *why, dt_ms now)
{
    struct dt_excluded *e = undo ? find(x, node) : find_or_add(x, node, true, now);
    if (undo && e)
        forget(x, e); /* whom a person lets in begins afresh: the strikes led to the repair */
    if (undo)
        return 0;
    if (!e)
        return -1;
    set_drained(x, e, true);
    snprintf(e->drained_why, sizeof e->drained_why, "%s",
             why && *why ? why : "drained, and no reason was given");
    return 0;
}

const char *dt_exclude_any_out(const struct dt_exclude *x)
{
    struct dt_node *n;
    if ((n = dt_list_first(&x->drained)))
        return dt_container_of(n, struct dt_excluded, in_drained)->name;
    n = dt_list_first(&x->banned);
    return n ? dt_container_of(n, struct dt_excluded, in_banned)->name : NULL;
}

static void put_ban(const struct dt_excluded *e, struct dt_buf *out, dt_ms now)
{
    dt_buf_put_i64(out, e->until - now);
    dt_buf_put_i64(out, now - e->since);
    dt_buf_put_u8(out, e->hard);
    dt_buf_put_u64(out, e->all_of);
    dt_buf_put_text(out, e->why);
}

void dt_exclude_save(const struct dt_excluded *e, struct dt_buf *out, dt_ms now)
{
    bool banned = e->until > now;
    dt_buf_put_u8(out, RECORD_VERSION);
    dt_buf_put_text(out, e->name);
    dt_buf_put_u8(out, e->drained);
    dt_buf_put_text(out, e->drained_why);
    dt_buf_put_u8(out, banned);
    if (banned)
        put_ban(e, out, now);
    dt_buf_put_i64(out, e->probation > now ? e->probation - now : 0);
    dt_buf_put_u32(out, (uint32_t)e->bans);
    dt_buf_put_u8(out, (uint8_t)count_strikes(e, now));
    for (int i = 0; i < e->strikes; i++)
        if (is_live(e, i, now)) {
            dt_buf_put_i64(out, now - e->strike[i].at);
            dt_buf_put_u64(out, e->strike[i].signature);
        }
}

static int64_t up_to(struct dt_reader *r, int64_t most, int64_t v)
{
    if (v >= 0 && v <= most)
        return v;
    r->bad = true;
    return 0;
}

static bool read_bool(struct dt_reader *r)
{
    return up_to(r, 1, dt_read_u8(r)) == 1;
}

/* A time that was LEFT at the writing; 0 when it is over by now. */
static dt_ms ends(dt_ms left, dt_ms now, dt_ms away)
{
    return left > away ? now + (left - away) : 0;
}

static void read_ban(struct dt_reader *r, struct dt_excluded *e, dt_ms now, dt_ms away)
{
    e->until = ends(up_to(r, LONGEST, dt_read_i64(r)), now, away);
    e->since = now - away - up_to(r, LONGEST, dt_read_i64(r));
    e->hard = read_bool(r);
    e->all_of = dt_read_u64(r);
    dt_read_text(r, e->why, sizeof e->why);
}

static void read_strikes(struct dt_reader *r, struct dt_excluded *e, dt_ms now, dt_ms away)
{
    int strikes = (int)up_to(r, DT_STRIKES_KEPT, dt_read_u8(r));
    for (int i = 0; i < strikes; i++) {
        dt_ms age = up_to(r, DT_STRIKE_WINDOW, dt_read_i64(r));
        e->strike[i].at = now - away - age;
        e->strike[i].signature = dt_read_u64(r);
    }
    e->strikes = strikes;
}

static bool read_record(struct dt_reader *r, struct dt_excluded *e, dt_ms now, dt_ms away)
{
    if (dt_read_u8(r) != RECORD_VERSION)
        return false;
    dt_read_text(r, e->name, sizeof e->name);
    e->drained = read_bool(r);
    dt_read_text(r, e->drained_why, sizeof e->drained_why);
    if (read_bool(r))
        read_ban(r, e, now, away);
    e->probation = ends(up_to(r, LONGEST, dt_read_i64(r)), now, away);
    e->bans = (int)up_to(r, INT_MAX, dt_read_u32(r));
    read_strikes(r, e, now, away);
    return !r->bad && e->name[0] && dt_reader_left(r) == 0;
}

bool dt_exclude_restore(struct dt_exclude *x, struct dt_bytes record, dt_ms now, dt_ms away)
{
    struct dt_excluded e = {0};
    struct dt_reader r = dt_reader_over(record.at, record.len);
    /* A wall clock may have been set back; and after so long all of it is over. */
    away = away < 0 ? 0 : away < LONGEST ? away : LONGEST;
    if (!read_record(&r, &e, now, away))
        return false;
    struct dt_excluded *to = find_or_add(x, e.name, e.drained, now);
    if (!to)
        return false;
    end_ban(to);
    set_drained(x, to, false);
    e.in_map = to->in_map;
    *to = e;
    dt_node_init(&to->in_banned);
    dt_node_init(&to->in_drained);
    set_drained(x, to, to->drained);
    if (to->until)
        dt_list_append(&x->banned, &to->in_banned);
    else
        end_ban(to);
    drop_strikes(to, 0, now);
    return true;
}
