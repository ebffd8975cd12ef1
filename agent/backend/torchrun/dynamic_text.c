/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/backend/torchrun/dynamic.h"
#include "agent/pickle/pickle.h"
#include "base/base64.h"
#include "base/str.h"

#include <limits.h>
#include <stdlib.h>
#include <time.h>

#define MODULE "torch.distributed.elastic.rendezvous.dynamic_rendezvous"
#define STATE_MAX (1u << 20) /* bytes of its pickle */
#define TEXT_MAX ((size_t)STATE_MAX / 3 * 4 + 4)

/* What classes there are in a state, by their place in this list. */
enum class { STATE, NODE, TIME, ZONE, SPAN, CLASSES };

static const char *const classes[] = {
    [STATE] = MODULE "._RendezvousState", [NODE] = MODULE "._NodeDesc",
    [TIME] = "datetime.datetime",         [ZONE] = "datetime.timezone",
    [SPAN] = "datetime.timedelta",        [CLASSES] = NULL,
};

/* -- reading ---------------------------------------------------------------------------------- */

static int strange(struct dt_err *err, const char *what)
{
    return dt_err_set(err, DT_E_PROTOCOL,
                      "%s is not as PyTorch up to 2.6 writes it; is it a newer one?", what);
}

static bool is_object(const struct dt_pickle_value *v, enum class class)
{
    return v->type == DT_PICKLE_OBJECT && v->number == (int64_t) class;
}

/* One that was made with nothing and has so many attributes. */
static bool is_plain(const struct dt_pickle_value *v, enum class class)
{
    return is_object(v, class) && v->args->count == 0 && v->fields;
}

/* timezone(timedelta(0, 0, 0)) */
static bool is_utc(const struct dt_pickle_value *v)
{
    if (!is_object(v, ZONE) || v->args->count != 1 || !is_object(v->args->first->key, SPAN))
        return false;
    for (const struct dt_pickle_item *i = v->args->first->key->args->first; i; i = i->next)
        if (i->key->type != DT_PICKLE_INT || i->key->number != 0)
            return false;
    return true;
}

/* Year, month, day, hour, minute, second, microseconds: 2, 1, 1, 1, 1, 1 and 3 bytes, the highest
 * first. */
static bool read_stamp(struct dt_bytes b, int64_t *wall)
{
    if (b.len != 10 || b.at[2] < 1 || b.at[2] > 12 || b.at[3] < 1 || b.at[3] > 31 || b.at[4] > 23 ||
        b.at[5] > 59 || b.at[6] > 59)
        return false;
    struct tm at = {.tm_year = (b.at[0] << 8 | b.at[1]) - 1900,
                    .tm_mon = b.at[2] - 1,
                    .tm_mday = b.at[3],
                    .tm_hour = b.at[4],
                    .tm_min = b.at[5],
                    .tm_sec = b.at[6]};
    int64_t fraction = b.at[7] << 16 | b.at[8] << 8 | b.at[9];
    *wall = timegm(&at) * INT64_C(1000000) + fraction;
    return at.tm_year >= 70 && at.tm_year < 8100 && fraction < 1000000;
}

static int read_time(const struct dt_pickle_value *v, struct dt_dynamic_dialect *d, int64_t *wall,
                     struct dt_err *err)
{
    const struct dt_pickle_item *stamp = is_object(v, TIME) ? v->args->first : NULL;
    if (!stamp || stamp->key->type != DT_PICKLE_BYTES || !read_stamp(stamp->key->bytes, wall) ||
        v->args->count > 2 || (stamp->next && !is_utc(stamp->next->key)))
        return strange(err, "a time in it");
    d->naive = !stamp->next;
    return 0;
}

static int read_node(const struct dt_pickle_value *v, struct dt_dynamic_dialect *d,
                     struct dt_dynamic_node *node, struct dt_err *err)
{
    bool plain = is_plain(v, NODE) && v->fields->count == 3;
    const struct dt_pickle_value *addr =
        plain ? dt_pickle_get(v->fields, "addr", DT_PICKLE_TEXT) : NULL;
    const struct dt_pickle_value *fqdn =
        plain ? dt_pickle_get(v->fields, "fqdn", DT_PICKLE_TEXT) : NULL;
    const struct dt_pickle_value *pid =
        plain ? dt_pickle_get(v->fields, "pid", DT_PICKLE_INT) : NULL;
    const struct dt_pickle_value *local_id =
        plain ? dt_pickle_get(v->fields, "local_id", DT_PICKLE_INT) : NULL;
    if ((!addr && !fqdn) || !pid || !local_id)
        return strange(err, "a node in it");
    struct dt_bytes name = addr ? addr->bytes : fqdn->bytes;
    if (name.len >= sizeof node->addr || (name.len && memchr(name.at, 0, name.len)))
        return strange(err, "the address of a node in it");
    *node = (struct dt_dynamic_node){.pid = pid->number, .local_id = local_id->number};
    dt_bytes_copy(node->addr, name);
    d->fqdn = !addr;
    d->told = true;
    return 0;
}

/* The state while it is read. Nodes stand in all of its lists in much the same order. */
struct reading {
    struct dt_dynamic_state s;
    size_t hint;
    struct dt_err *err;
};

static struct dt_dynamic_member *member(struct reading *r, const struct dt_pickle_value *v)
{
    struct dt_dynamic_node node;
    if (read_node(v, &r->s.dialect, &node, r->err) < 0)
        return NULL;
    if (r->hint < r->s.count && memcmp(&r->s.members[r->hint].node, &node, sizeof node) == 0)
        return &r->s.members[r->hint++];
    struct dt_dynamic_member *m = dt_dynamic_add(&r->s, &node);
    if (!m)
        dt_err_set(r->err, DT_E_LIMIT, "it has over %d nodes, or there is no memory for them",
                   DT_DYNAMIC_NODES_MAX);
    else
        r->hint = (size_t)(m - r->s.members) + 1;
    return m;
}

static int read_participants(struct reading *r, const struct dt_pickle_value *dict)
{
    for (const struct dt_pickle_item *i = dict->first; i; i = i->next) {
        struct dt_dynamic_member *m = member(r, i->key);
        if (!m)
            return -1;
        if (i->value->type != DT_PICKLE_INT || i->value->number < 0 || i->value->number > INT_MAX)
            return strange(r->err, "the rank of a node in it");
        m->participates = true;
        m->rank = (int)i->value->number;
    }
    return 0;
}

static int read_set(struct reading *r, const struct dt_pickle_value *set, bool redundant)
{
    for (const struct dt_pickle_item *i = set->first; i; i = i->next) {
        struct dt_dynamic_member *m = member(r, i->key);
        if (!m)
            return -1;
        m->redundant |= redundant;
        m->waits |= !redundant;
    }
    return 0;
}

static int read_heartbeats(struct reading *r, const struct dt_pickle_value *dict)
{
    for (const struct dt_pickle_item *i = dict->first; i; i = i->next) {
        struct dt_dynamic_member *m = member(r, i->key);
        if (!m || read_time(i->value, &r->s.dialect, &m->heartbeat, r->err) < 0)
            return -1;
        m->beats = true;
    }
    return 0;
}

static int read_deadline(struct reading *r, const struct dt_pickle_value *root)
{
    const struct dt_pickle_value *time = dt_pickle_get(root->fields, "deadline", DT_PICKLE_OBJECT);
    if (time)
        return read_time(time, &r->s.dialect, &r->s.deadline, r->err);
    return dt_pickle_get(root->fields, "deadline", DT_PICKLE_NONE)
               ? 0
               : strange(r->err, "its deadline");
}

static int read_state(struct reading *r, const struct dt_pickle_value *root)
{
    if (!is_plain(root, STATE))
        return strange(r->err, "it");
    const struct dt_pickle_value *round = dt_pickle_get(root->fields, "round", DT_PICKLE_INT);
    const struct dt_pickle_value *complete =
        dt_pickle_get(root->fields, "complete", DT_PICKLE_BOOL);
    const struct dt_pickle_value *closed = dt_pickle_get(root->fields, "closed", DT_PICKLE_BOOL);
    const struct dt_pickle_value *participants =
        dt_pickle_get(root->fields, "participants", DT_PICKLE_DICT);
    const struct dt_pickle_value *wait_list =
        dt_pickle_get(root->fields, "wait_list", DT_PICKLE_SET);
    const struct dt_pickle_value *redundant =
        dt_pickle_get(root->fields, "redundancy_list", DT_PICKLE_SET);
    const struct dt_pickle_value *heartbeats =
        dt_pickle_get(root->fields, "last_heartbeats", DT_PICKLE_DICT);
    if (!round || round->number < 0 || round->number >= INT_MAX || !complete || !closed ||
        !participants || !wait_list || !heartbeats || root->fields->count != 7u + !!redundant)
        return strange(r->err, "it");
    r->s.dialect.redundancy = redundant;
    r->s.round = round->number;
    r->s.complete = complete->number;
    r->s.closed = closed->number;
    if (read_deadline(r, root) < 0 || read_participants(r, participants) < 0 ||
        read_set(r, wait_list, false) < 0 || (redundant && read_set(r, redundant, true) < 0))
        return -1;
    r->hint = 0;
    return read_heartbeats(r, heartbeats);
}

int dt_dynamic_read(struct dt_dynamic_state *s, struct dt_bytes text, struct dt_err *err)
{
    static const struct dt_pickle_limits limits = {.bytes = STATE_MAX, .opcodes = STATE_MAX};
    struct reading r = {.s.dialect = s->dialect, .err = err};
    struct dt_buf bytes = {0};
    struct dt_pickle pickle = {0};
    int rc = -1;
    if (text.len > TEXT_MAX)
        dt_err_set(err, DT_E_LIMIT, "it has %zu characters; at most %zu are taken", text.len,
                   TEXT_MAX);
    else if (dt_base64_read(text, &bytes, err) == 0 &&
             dt_pickle_read(&pickle, (struct dt_bytes){bytes.at, bytes.len}, &limits, classes,
                            err) == 0)
        rc = read_state(&r, pickle.root);
    dt_pickle_finish(&pickle);
    dt_buf_finish(&bytes);
    if (rc < 0) {
        dt_dynamic_finish(&r.s);
        return -1;
    }
    free(s->members);
    *s = r.s;
    return 0;
}

/* -- writing ---------------------------------------------------------------------------------- */

/* What is written once and then recalled, as Python does with what is one object there: a place in
 * the memo and 1. Attributes have one name object for all nodes. */
struct writing {
    struct dt_pickle_writer w;
    const struct dt_dynamic_dialect *dialect;
    uint32_t class[CLASSES], utc, own_module, datetime_module, addr, pid, local_id;
    uint32_t *nodes; /* by member */
};

static bool again(struct writing *w, uint32_t memo)
{
    if (memo)
        dt_pickle_again(&w->w, memo - 1);
    return memo;
}

static void memoize(struct writing *w, uint32_t *memo)
{
    uint32_t at = dt_pickle_memoize(&w->w);
    if (memo)
        *memo = at + 1;
}

static void put_op(struct writing *w, enum dt_pickle_op op, uint32_t *memo)
{
    dt_pickle_put(&w->w, op);
    memoize(w, memo);
}

static void put_text(struct writing *w, uint32_t *memo, const char *text)
{
    if (memo && again(w, *memo))
        return;
    dt_pickle_put_text(&w->w, text);
    memoize(w, memo);
}

static void put_class(struct writing *w, enum class class)
{
    bool own = class == STATE || class == NODE;
    const char *module = own ? MODULE : "datetime";
    if (again(w, w->class[class]))
        return;
    put_text(w, own ? &w->own_module : &w->datetime_module, module);
    put_text(w, NULL, classes[class] + strlen(module) + 1);
    put_op(w, DT_PICKLE_STACK_GLOBAL, &w->class[class]);
}

/* What stands before an object's attributes. */
static void put_new(struct writing *w, enum class class, uint32_t *memo)
{
    put_class(w, class);
    dt_pickle_put(&w->w, DT_PICKLE_EMPTY_TUPLE);
    put_op(w, DT_PICKLE_NEWOBJ, memo);
    put_op(w, DT_PICKLE_EMPTY_DICT, NULL);
    dt_pickle_put(&w->w, DT_PICKLE_MARK);
}

static void put_built(struct writing *w)
{
    dt_pickle_put(&w->w, DT_PICKLE_SETITEMS);
    dt_pickle_put(&w->w, DT_PICKLE_BUILD);
}

static void put_utc(struct writing *w)
{
    if (again(w, w->utc))
        return;
    put_class(w, ZONE);
    put_class(w, SPAN);
    for (int i = 0; i < 3; i++)
        dt_pickle_put_int(&w->w, 0);
    put_op(w, DT_PICKLE_TUPLE3, NULL);
    put_op(w, DT_PICKLE_REDUCE, NULL);
    put_op(w, DT_PICKLE_TUPLE1, NULL);
    put_op(w, DT_PICKLE_REDUCE, &w->utc);
}

static void put_time(struct writing *w, int64_t wall)
{
    time_t seconds = wall / 1000000;
    int fraction = (int)(wall % 1000000);
    struct tm at;
    gmtime_r(&seconds, &at);
    int year = at.tm_year + 1900;
    uint8_t stamp[] = {(uint8_t)(year >> 8),     (uint8_t)year,
                       (uint8_t)(at.tm_mon + 1), (uint8_t)at.tm_mday,
                       (uint8_t)at.tm_hour,      (uint8_t)at.tm_min,
                       (uint8_t)at.tm_sec,       (uint8_t)(fraction >> 16),
                       (uint8_t)(fraction >> 8), (uint8_t)fraction};
    put_class(w, TIME);
    dt_pickle_put_bytes(&w->w, stamp, sizeof stamp);
    memoize(w, NULL);
    if (!w->dialect->naive)
        put_utc(w);
    put_op(w, w->dialect->naive ? DT_PICKLE_TUPLE1 : DT_PICKLE_TUPLE2, NULL);
    put_op(w, DT_PICKLE_REDUCE, NULL);
}

static void put_node(struct writing *w, const struct dt_dynamic_node *n, uint32_t *memo)
{
    if (again(w, *memo))
        return;
    put_new(w, NODE, memo);
    put_text(w, &w->addr, w->dialect->fqdn ? "fqdn" : "addr");
    put_text(w, NULL, n->addr);
    put_text(w, &w->pid, "pid");
    dt_pickle_put_int(&w->w, n->pid);
    put_text(w, &w->local_id, "local_id");
    dt_pickle_put_int(&w->w, n->local_id);
    put_built(w);
}

/* Which of a state's containers. */
enum list { PARTICIPANTS, WAIT_LIST, REDUNDANCY_LIST, HEARTBEATS };

static bool is_in(const struct dt_dynamic_member *m, enum list list)
{
    switch (list) {
    case PARTICIPANTS:
        return m->participates;
    case WAIT_LIST:
        return m->waits;
    case REDUNDANCY_LIST:
        return m->redundant;
    case HEARTBEATS:
        return m->beats;
    }
    return false;
}

/* A dict of one item is put without a mark, by Python too. */
static void put_list(struct writing *w, const struct dt_dynamic_state *s, enum list list)
{
    bool dict = list == PARTICIPANTS || list == HEARTBEATS;
    size_t count = 0;
    for (size_t i = 0; i < s->count; i++)
        count += is_in(&s->members[i], list);
    bool marked = count > 1 || (count == 1 && !dict);
    put_op(w, dict ? DT_PICKLE_EMPTY_DICT : DT_PICKLE_EMPTY_SET, NULL);
    if (marked)
        dt_pickle_put(&w->w, DT_PICKLE_MARK);
    for (size_t i = 0; i < s->count; i++) {
        const struct dt_dynamic_member *m = &s->members[i];
        if (!is_in(m, list))
            continue;
        put_node(w, &m->node, &w->nodes[i]);
        if (list == PARTICIPANTS)
            dt_pickle_put_int(&w->w, m->rank);
        else if (list == HEARTBEATS)
            put_time(w, m->heartbeat);
    }
    if (count > 0)
        dt_pickle_put(&w->w, !dict    ? DT_PICKLE_ADDITEMS
                             : marked ? DT_PICKLE_SETITEMS
                                      : DT_PICKLE_SETITEM);
}

static void put_bool(struct writing *w, bool yes)
{
    dt_pickle_put(&w->w, yes ? DT_PICKLE_TRUE : DT_PICKLE_FALSE);
}

static void put_state(struct writing *w, const struct dt_dynamic_state *s)
{
    put_new(w, STATE, NULL);
    put_text(w, NULL, "round");
    dt_pickle_put_int(&w->w, s->round);
    put_text(w, NULL, "complete");
    put_bool(w, s->complete);
    put_text(w, NULL, "deadline");
    if (s->deadline)
        put_time(w, s->deadline);
    else
        dt_pickle_put(&w->w, DT_PICKLE_PUSH_NONE);
    put_text(w, NULL, "closed");
    put_bool(w, s->closed);
    put_text(w, NULL, "participants");
    put_list(w, s, PARTICIPANTS);
    put_text(w, NULL, "wait_list");
    put_list(w, s, WAIT_LIST);
    if (s->dialect.redundancy) {
        put_text(w, NULL, "redundancy_list");
        put_list(w, s, REDUNDANCY_LIST);
    }
    put_text(w, NULL, "last_heartbeats");
    put_list(w, s, HEARTBEATS);
    put_built(w);
}

void dt_dynamic_write(const struct dt_dynamic_state *s, struct dt_buf *out)
{
    struct dt_buf pickle = {0};
    struct writing w = {.dialect = &s->dialect, .nodes = calloc(s->count + 1, sizeof *w.nodes)};
    if (w.nodes) {
        dt_pickle_begin(&w.w, &pickle);
        put_state(&w, s);
        dt_pickle_end(&w.w);
        dt_base64_write(out, (struct dt_bytes){pickle.at, pickle.len});
    }
    out->bad |= !w.nodes || pickle.bad;
    free(w.nodes);
    dt_buf_finish(&pickle);
}
