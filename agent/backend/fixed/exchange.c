/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/backend/fixed/exchange.h"

#include "agent/backend/fixed/elders.h"
#include "base/list.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define key(x, ...) dt_exchange_key(&(x)->key, (x)->prefix, __VA_ARGS__)

/* -- asking the store ------------------------------------------------------------------------- */

struct dt_bytes dt_exchange_key(struct dt_buf *room, const char *prefix, const char *fmt, ...)
{
    char name[64];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(name, sizeof name, fmt, ap);
    va_end(ap);
    dt_buf_clear(room);
    dt_buf_printf(room, "/%s/%s", prefix, name);
    return (struct dt_bytes){room->at, room->bad ? 0 : room->len};
}

struct dt_bytes dt_exchange_place_key(struct dt_exchange *x, int node)
{
    return key(x, "torchelastic/assigned_ranks/%d", node);
}

static struct dt_bytes last_member_key(struct dt_exchange *x)
{
    return key(x, "torchelastic/agent/terminal_state/last_member");
}

struct dt_bytes dt_exchange_said_key(struct dt_exchange *x, int node)
{
    return x->elder ? key(x, DT_ELDERS_SAID, node) : key(x, "torchelastic/role_info/%d", node);
}

struct dt_bytes dt_exchange_met_key(struct dt_exchange *x)
{
    return key(x, "torchelastic/agent/terminal_state/num_members");
}

static int ask(struct dt_exchange *x, struct dt_c10d_request req, dt_store_done_fn *done,
               struct dt_err *err)
{
    if (x->key.bad)
        return dt_err_set(err, DT_E_MEMORY, "no memory for a key of the store");
    return dt_store_client_request(x->client, &req, x->timeout, done, x, err);
}

static int set(struct dt_exchange *x, struct dt_bytes at, const char *value, dt_store_done_fn *done,
               struct dt_err *err)
{
    struct dt_c10d_request req = {.op = DT_C10D_SET, .key = at, .value = dt_bytes_of(value)};
    return ask(x, req, done, err);
}

/* A list request. Frees ITEMS. */
static int ask_list(struct dt_exchange *x, enum dt_c10d_op op, int count, struct dt_buf *items,
                    dt_store_done_fn *done, struct dt_err *err)
{
    struct dt_c10d_request req = {
        .op = op, .count = (uint64_t)count, .items = {items->at, items->len}};
    int rc = items->bad ? dt_err_set(err, DT_E_MEMORY, "no memory for the ranks of %d nodes", count)
                        : ask(x, req, done, err);
    dt_buf_finish(items);
    return rc;
}

/* -- this node's place ------------------------------------------------------------------------ */

/* Its workers are to fit in there. */
static int check_place(const struct dt_exchange *x, const struct dt_ranks_place *p,
                       struct dt_err *err)
{
    if (p->size - p->first >= x->workers && p->role_size - p->first_in_role >= x->workers)
        return 0;
    return dt_err_set(err, DT_E_PROTOCOL,
                      "%d workers do not fit in ranks from %d of %d, and from %d of %d in the role",
                      x->workers, p->first, p->size, p->first_in_role, p->role_size);
}

static void on_told(void *arg, const struct dt_c10d_reply *reply, const struct dt_err *err)
{
    struct dt_exchange *x = arg;
    struct dt_ranks_place place;
    struct dt_err wrong;
    if (err) {
        x->on_place(x, NULL, err);
    } else if (dt_ranks_read_place(reply->value, &place, &wrong) < 0 ||
               check_place(x, &place, &wrong) < 0) {
        if (wrong.code != DT_E_CANCELED)
            dt_err_wrap(&wrong, "what node 0 tells node %d", x->node);
        x->on_place(x, NULL, &wrong);
    } else {
        x->on_place(x, &place, NULL);
    }
}

static int ask_place(struct dt_exchange *x, struct dt_err *err)
{
    struct dt_c10d_request get = {.op = DT_C10D_GET, .key = dt_exchange_place_key(x, x->node)};
    return ask(x, get, on_told, err);
}

/* -- the same job for all --------------------------------------------------------------------- */

static int compare(const struct dt_exchange *x, int node, const struct dt_ranks_node *said,
                   struct dt_err *err)
{
    bool first = x->node < node;
    if (!x->fixed || said->nodes == 0 || said->nodes == x->nodes)
        return 0;
    return dt_err_set(err, DT_E_PROTOCOL,
                      "node %d was started with --nnodes %d and node %d with --nnodes %d; give all "
                      "nodes of the job the same",
                      first ? x->node : node, first ? x->nodes : said->nodes,
                      first ? node : x->node, first ? said->nodes : x->nodes);
}

int dt_exchange_check(const struct dt_exchange *x, int node, struct dt_bytes said,
                      struct dt_err *err)
{
    struct dt_ranks_node other;
    if (dt_ranks_read_node(said, &other, err) < 0)
        return dt_err_wrap(err, "what node %d says of itself", node);
    int rc = compare(x, node, &other, err);
    free(other.role);
    return rc;
}

static void on_node_0(void *arg, const struct dt_c10d_reply *reply, const struct dt_err *err)
{
    struct dt_exchange *x = arg;
    struct dt_err wrong;
    if (!err && dt_exchange_check(x, 0, reply->value, &wrong) < 0)
        x->on_place(x, NULL, &wrong);
}

/* A node that node 0 does not expect would wait for its place in vain. */
static int ask_node_0(struct dt_exchange *x, struct dt_err *err)
{
    struct dt_c10d_request get = {.op = DT_C10D_GET, .key = dt_exchange_said_key(x, 0)};
    return x->fixed ? ask(x, get, on_node_0, err) : 0;
}

/* -- everybody's places, by node 0 ------------------------------------------------------------ */

static int read_nodes(const struct dt_exchange *x, struct dt_bytes said,
                      struct dt_ranks_node *nodes, struct dt_err *err)
{
    struct dt_bytes text;
    for (int i = 0; i < x->nodes && dt_c10d_next_blob(&said, &text); i++)
        if (dt_exchange_check(x, i, text, err) < 0 || dt_ranks_read_node(text, &nodes[i], err) < 0)
            return -1;
    return 0;
}

static int tell_places(struct dt_exchange *x, const struct dt_ranks_place *places,
                       struct dt_err *err)
{
    struct dt_buf items = {0}, text = {0};
    for (int i = 0; i < x->nodes; i++) {
        dt_buf_clear(&text);
        dt_ranks_write_place(&text, &places[i]);
        dt_c10d_put_item(&items, dt_exchange_place_key(x, i),
                         &(struct dt_bytes){text.at, text.len});
    }
    items.bad |= text.bad;
    dt_buf_finish(&text);
    return ask_list(x, DT_C10D_MULTI_SET, x->nodes, &items, NULL, err);
}

/* What becomes of everybody's places; where node 0 is an elder each node keeps its own. */
static int use_places(struct dt_exchange *x, const struct dt_ranks_place *places,
                      struct dt_ranks_place *own, struct dt_err *err)
{
    *own = places[x->node];
    return x->elder ? 0 : tell_places(x, places, err);
}

static int assign_places(struct dt_exchange *x, struct dt_bytes said, struct dt_ranks_place *own,
                         struct dt_err *err)
{
    size_t count = (size_t)x->nodes;
    struct dt_ranks_node *nodes = calloc(count, sizeof *nodes);
    struct dt_ranks_place *places = calloc(count, sizeof *places);
    int rc = -1;
    if (!nodes || !places)
        dt_err_set(err, DT_E_MEMORY, "no memory for the ranks of %zu nodes", count);
    else if (read_nodes(x, said, nodes, err) == 0 &&
             dt_ranks_assign(nodes, count, places, err) == 0)
        rc = use_places(x, places, own, err);
    for (size_t i = 0; nodes && i < count; i++)
        free(nodes[i].role);
    free(nodes);
    free(places);
    return rc;
}

static void on_all_said(void *arg, const struct dt_c10d_reply *reply, const struct dt_err *err)
{
    struct dt_exchange *x = arg;
    struct dt_ranks_place own;
    struct dt_err wrong;
    if (err)
        x->on_place(x, NULL, err);
    else if (assign_places(x, reply->items, &own, &wrong) < 0 ||
             (x->elder ? set(x, key(x, DT_ELDERS_SAID_END, x->node), "FIN", NULL, &wrong)
                       : ask_place(x, &wrong)) < 0)
        x->on_place(x, NULL, &wrong);
    else if (x->elder)
        x->on_place(x, &own, NULL);
}

static int ask_all(struct dt_exchange *x, struct dt_err *err)
{
    struct dt_buf items = {0};
    for (int i = 0; i < x->nodes; i++)
        dt_c10d_put_item(&items, dt_exchange_said_key(x, i), NULL);
    return ask_list(x, DT_C10D_MULTI_GET, x->nodes, &items, on_all_said, err);
}

static int say_role(struct dt_exchange *x, struct dt_err *err)
{
    struct dt_buf text = {0};
    const struct dt_ranks_node self = {(char *)x->role, x->workers, x->fixed ? x->nodes : 0};
    dt_ranks_write_node(&text, &self, x->node);
    const char *said = dt_buf_cstr(&text);
    int rc = text.bad ? dt_err_set(err, DT_E_MEMORY, "no memory for a role")
                      : set(x, dt_exchange_said_key(x, x->node), said, NULL, err);
    dt_buf_finish(&text);
    return rc;
}

int dt_exchange_ranks(struct dt_exchange *x, dt_ms timeout, struct dt_err *err)
{
    x->timeout = timeout;
    x->elder = dt_store_client_legacy(x->client);
    if (say_role(x, err) < 0)
        return -1;
    if (x->node == 0 || x->elder)
        return ask_all(x, err);
    return ask_node_0(x, err) < 0 ? -1 : ask_place(x, err);
}

/* -- the barrier ------------------------------------------------------------------------------ */

static void on_over(void *arg, const struct dt_c10d_reply *reply, const struct dt_err *err)
{
    struct dt_exchange *x = arg;
    (void)reply;
    x->on_met(x, err);
}

static int wait_for_last(struct dt_exchange *x, struct dt_err *err)
{
    struct dt_buf items = {0};
    dt_c10d_put_item(&items, last_member_key(x), NULL);
    return ask_list(x, DT_C10D_WAIT, 1, &items, on_over, err);
}

static void on_counted(void *arg, const struct dt_c10d_reply *reply, const struct dt_err *err)
{
    struct dt_exchange *x = arg;
    struct dt_err wrong;
    bool last = !err && reply->number == x->nodes;
    if (err)
        x->on_met(x, err);
    else if ((last && set(x, last_member_key(x), "<val_ignored>", NULL, &wrong) < 0) ||
             wait_for_last(x, &wrong) < 0)
        x->on_met(x, &wrong);
}

/* An elder at node 0 leaves when all have said that they saw all. */
static void on_all_met(void *arg, const struct dt_c10d_reply *reply, const struct dt_err *err)
{
    struct dt_exchange *x = arg;
    struct dt_err wrong;
    (void)reply;
    if (err)
        x->on_met(x, err);
    else if (set(x, key(x, DT_ELDERS_MET_END, x->node), "FIN", on_over, &wrong) < 0)
        x->on_met(x, &wrong);
}

static int meet_elders(struct dt_exchange *x, struct dt_err *err)
{
    struct dt_buf items = {0};
    char text[16];
    snprintf(text, sizeof text, "%d", x->node);
    if (set(x, key(x, DT_ELDERS_MET, x->node), text, NULL, err) < 0)
        return -1;
    for (int i = 0; i < x->nodes; i++)
        dt_c10d_put_item(&items, key(x, DT_ELDERS_MET, i), NULL);
    return ask_list(x, DT_C10D_WAIT, x->nodes, &items, on_all_met, err);
}

int dt_exchange_meet(struct dt_exchange *x, dt_ms timeout, struct dt_err *err)
{
    struct dt_c10d_request add = {.op = DT_C10D_ADD, .key = dt_exchange_met_key(x), .number = 1};
    x->timeout = timeout;
    return x->elder ? meet_elders(x, err) : ask(x, add, on_counted, err);
}

void dt_exchange_finish(struct dt_exchange *x)
{
    dt_buf_finish(&x->key);
}
