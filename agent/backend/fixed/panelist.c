/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/backend/fixed/panelist.h"

#include "agent/backend/fixed/exchange.h"
#include "agent/backend/fixed/panel.h"
#include "base/chance.h"
#include "base/list.h"
#include "rendezvous/hang/finding.h"

#define key(p, ...) dt_exchange_key(&(p)->key, (p)->prefix, __VA_ARGS__)

#define PATIENCE (15 * DT_SECOND) /* with node 0, before it is asked again */
#define SOON (5 * DT_SECOND)      /* for what has no answer to wait for */
#define RUN "job"                 /* of messages: the keys say which */
#define FOR_EVER ((dt_ms)1 << 40) /* how long workers that have left stand still */

void dt_panelist_finish(struct dt_panelist *p)
{
    dt_buf_finish(&p->key);
    dt_buf_finish(&p->value);
}

/* -- the store -------------------------------------------------------------------------------- */

static int request(struct dt_panelist *p, enum dt_c10d_op op, struct dt_bytes at,
                   struct dt_bytes value, dt_ms timeout, dt_store_done_fn *done)
{
    struct dt_c10d_request req = {.op = op, .key = at, .value = value};
    if (p->key.bad || p->value.bad)
        return -1;
    return dt_store_client_request(p->client, &req, timeout, done, p, NULL);
}

static void put(struct dt_panelist *p, struct dt_bytes at, const struct dt_message *m)
{
    dt_buf_clear(&p->value);
    dt_message_encode(&p->value, m);
    request(p, DT_C10D_SET, at, (struct dt_bytes){p->value.at, p->value.len}, SOON, NULL);
}

static bool await(struct dt_panelist *p, struct dt_bytes at, dt_store_done_fn *done)
{
    return request(p, DT_C10D_GET, at, (struct dt_bytes){0}, PATIENCE, done) == 0;
}

/* The message of that TYPE which REPLY brings; to be finished. */
static bool read_reply(const struct dt_c10d_reply *reply, enum dt_message_type type,
                       struct dt_message *m)
{
    return reply && dt_message_read(reply->value, type, m);
}

/* -- whether all take part -------------------------------------------------------------------- */

void dt_panelist_greet(struct dt_panelist *p)
{
    request(p, DT_C10D_SET, key(p, DT_PANEL_KNOWS, p->node), dt_bytes_of("1"), SOON, NULL);
}

static void on_together(void *arg, const struct dt_c10d_reply *reply, const struct dt_err *err)
{
    struct dt_panelist *p = arg;
    (void)err; /* then each node judges for itself */
    p->asks = false;
    p->together = reply != NULL;
}

void dt_panelist_begin(struct dt_panelist *p, struct dt_rank_range ranks, dt_ms patience)
{
    p->ranks = ranks;
    p->done = false;
    if (!p->together && !p->asks)
        p->asks = request(p, DT_C10D_GET, key(p, DT_PANEL_TOGETHER), (struct dt_bytes){0}, patience,
                          on_together) == 0;
}

/* -- a look, and what comes of it ------------------------------------------------------------- */

static void say_still(struct dt_panelist *p);

static void on_finding(void *arg, const struct dt_c10d_reply *reply, const struct dt_err *err)
{
    struct dt_panelist *p = arg;
    struct dt_message m;
    struct dt_hang_finding found;
    (void)err; /* node 0 is gone or slow: it is all said again as long as they stand still */
    p->awaited = 0;
    if (!read_reply(reply, DT_MSG_FINDING, &m))
        return;
    dt_hang_finding_get(&m.finding, &found);
    if (p->number > 0)
        say_still(p); /* node 0 may look again later */
    if (found.class != DT_HANG_NONE)
        p->events->on_finding(p->arg, &m.finding.stances, &found);
    dt_message_finish(&m);
}

void dt_panelist_looked(struct dt_panelist *p, int64_t look, const struct dt_stances *stances)
{
    struct dt_message m = {.type = DT_MSG_LOOKED, .run = RUN};
    if (look != p->look)
        return;
    m.looked.id = look;
    m.looked.stances = *stances;
    put(p, key(p, DT_PANEL_LOOKED, (long long)look, p->node), &m);
    await(p, key(p, DT_PANEL_FINDING, (long long)look), on_finding);
}

/* Others may wait for workers that have left. */
static void tell_left(struct dt_panelist *p)
{
    struct dt_stance left = {.doing = DT_DOING_LEFT, .sequence = -1, .step = -1};
    struct dt_stance_group all = {left, &p->ranks, 1, p->ranks.last - p->ranks.first + 1};
    dt_panelist_looked(p, p->look, &(struct dt_stances){&all, 1});
}

static void await_look(struct dt_panelist *p);

static void on_look(void *arg, const struct dt_c10d_reply *reply, const struct dt_err *err)
{
    struct dt_panelist *p = arg;
    struct dt_message m;
    if (err && err->code == DT_E_TIMEOUT && p->number > 0)
        await_look(p); /* not all nodes stand still so far */
    else if (err)
        p->awaited = 0; /* there is another try when they are said to stand still again */
    if (!read_reply(reply, DT_MSG_LOOK, &m))
        return;
    bool current = m.round == p->number && m.look.id != p->look;
    if (current)
        p->look = m.look.id;
    dt_message_finish(&m);
    if (current && p->done)
        tell_left(p);
    else if (current)
        p->events->on_look(p->arg, p->look, false);
}

/* -- that they stand still -------------------------------------------------------------------- */

static int new_number(struct dt_panelist *p)
{
    if (p->seed == 0)
        p->seed = (uint64_t)dt_clock_monotonic_ns() + (uint64_t)p->node;
    return (int)(dt_chance(&p->seed) % 1000000000u) + 1;
}

static void await_look(struct dt_panelist *p)
{
    bool asked = await(p, key(p, DT_PANEL_LOOK, p->node, p->number), on_look);
    p->awaited = asked ? p->number : 0;
}

static void say_still(struct dt_panelist *p)
{
    struct dt_message m = {.type = DT_MSG_STILL, .run = RUN};
    if (p->number == 0)
        p->number = new_number(p);
    m.round = p->number;
    m.still.still = p->still;
    m.still.sure = p->sure;
    put(p, key(p, DT_PANEL_STILL, p->node), &m);
    if (p->awaited != p->number)
        await_look(p);
}

static void say_moving(struct dt_panelist *p)
{
    if (p->number > 0)
        request(p, DT_C10D_DELETE_KEY, key(p, DT_PANEL_STILL, p->node), (struct dt_bytes){0}, SOON,
                NULL);
    p->number = 0;
}

bool dt_panelist_still(struct dt_panelist *p, dt_ms still, bool sure)
{
    if (!p->together || dt_store_client_trouble(p->client))
        return false;
    p->still = still;
    p->sure = sure;
    if (still > 0)
        say_still(p);
    else
        say_moving(p);
    return true;
}

void dt_panelist_end(struct dt_panelist *p, bool well)
{
    say_moving(p);
    p->done = well;
    if (well)
        dt_panelist_still(p, FOR_EVER, false);
}
