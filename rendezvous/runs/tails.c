/* SPDX-License-Identifier: Apache-2.0 */
#include "rendezvous/runs/tails.h"

#include "base/json_write.h"

#include <stdio.h>
#include <stdlib.h>

#define ROOM_OF_ALL                                                                                \
    (64 << 10) /* bytes that all nodes together may tell before they are answered                  \
                */
#define ROOM_LEAST (1 << 10)
/* Bytes of pages that a person has not answered: JSON may be six times as long as what it holds,
 * and nodes whose workers are over tell the rest unasked. What is more is left out. */
#define UNTAKEN_MOST ((size_t)2 << 20)
#define PATIENCE (5 * DT_SECOND) /* with nodes that say nothing, where nobody waits for more */

enum teller_state {
    TELLER_TELLS,
    TELLER_OVER, /* has told all that was asked for, or cannot */
    TELLER_GONE, /* its connection is */
};

/* A node that a person was sent to. */
struct teller {
    uint64_t incarnation, conn; /* the number of that, for another one has heard nothing */
    char name[DT_NODE_NAME_MAX];
    enum teller_state state;
    int number, pages; /* that were not answered ... */
    size_t bytes;      /* ... and so much */
    bool waits;        /* for MORE: all of them were answered, or the last page was left out */
};

struct dt_rdzv_tail {
    struct dt_node in_run;
    struct dt_rdzv_conn *conn; /* the person's */
    struct dt_rdzv_run *run;
    int64_t id;
    struct dt_rank_set ranks;
    char node[DT_NODE_NAME_MAX]; /* "": all */
    int lines;
    bool follow;
    bool asked_if_there;
    size_t untaken;
    dt_ms heard; /* something of the nodes, or what they wait for: the question, an answer */
    int numbers; /* of tellers, so far */
    struct teller *tellers;
    size_t len;
};

/* -- what people are told --------------------------------------------------------------------- */

static void say(const struct dt_rdzv_tail *t, const char *why)
{
    struct dt_message m = {.type = DT_MSG_LOGS, .run = t->run->id, .why = why};
    dt_rdzv_conn_send(t->conn, &m);
}

static void answer_last(struct dt_rdzv_conn *c, const char *run, bool done, const char *why)
{
    struct dt_message m = {
        .type = DT_MSG_LOGS, .run = run, .logs = {.over = true, .done = done}, .why = why};
    dt_rdzv_conn_send(c, &m);
}

/* Nobody writes anything else about it: what a node tells is an object already. */
static void pass_on(struct dt_rdzv_tail *t, struct teller *from, const char *json)
{
    struct dt_buf page = {0};
    struct dt_json_writer w = {.out = &page};
    dt_json_put_object(&w, NULL);
    dt_json_put_text(&w, "node", from->name);
    dt_json_put_raw(&w, "told", "%s", json);
    dt_json_put_end(&w);
    if (!page.bad && t->untaken + page.len <= UNTAKEN_MOST) {
        struct dt_message m = {.type = DT_MSG_LOGS, .run = t->run->id};
        m.logs.from = from->number;
        m.logs.json = dt_buf_cstr(&page);
        from->pages++;
        from->bytes += page.len;
        t->untaken += page.len;
        dt_rdzv_conn_send(t->conn, &m);
    }
    from->waits = from->pages == 0;
    dt_buf_finish(&page);
}

/* -- what nodes are told ---------------------------------------------------------------------- */

static struct dt_rdzv_conn *conn_of(const struct dt_rdzv_run *run, uint64_t incarnation)
{
    return dt_map_find(&run->conns,
                       (struct dt_bytes){(const uint8_t *)&incarnation, sizeof incarnation});
}

static int room(const struct dt_rdzv_tail *t)
{
    int each = ROOM_OF_ALL / (int)(t->len ? t->len : 1);
    return each < ROOM_LEAST ? ROOM_LEAST : each > DT_TAIL_ROOM_MOST ? DT_TAIL_ROOM_MOST : each;
}

static void send_to(const struct dt_rdzv_run *run, struct dt_rdzv_conn *c, struct dt_message *m)
{
    m->run = run->id;
    m->round = run->rdzv->round;
    m->incarnation = c->incarnation;
    dt_rdzv_conn_send(c, m);
}

static void send_more(const struct dt_rdzv_run *run, struct dt_rdzv_conn *c, int64_t id, int most)
{
    send_to(run, c, &(struct dt_message){.type = DT_MSG_MORE, .more = {.id = id, .room = most}});
}

/* AGAIN: the person drops what it has already of all that is kept. */
static void ask(struct dt_rdzv_tail *t, struct teller *of, struct dt_rdzv_conn *c, bool again)
{
    struct dt_buf ranks = {0};
    struct dt_message m = {.type = DT_MSG_TAIL};
    dt_rank_set_put(&t->ranks, &ranks);
    m.tail.id = t->id;
    m.tail.ranks = dt_buf_cstr(&ranks);
    m.tail.lines = again ? DT_TAIL_ALL : t->lines;
    m.tail.follow = t->follow;
    m.tail.room = room(t);
    of->state = TELLER_TELLS;
    of->conn = c->number;
    t->untaken -= of->bytes;
    of->bytes = 0;
    of->pages = 0;
    of->waits = false;
    if (ranks.bad)
        dt_rdzv_conn_end(t->conn); /* no memory; it comes again */
    else
        send_to(t->run, c, &m);
    dt_buf_finish(&ranks);
}

/* -- whom a question is for ------------------------------------------------------------------- */

/* While nodes gather, those that were in a round have what was printed there. */
static bool is_about(const struct dt_rdzv_tail *t, const struct dt_member *m)
{
    const struct dt_rdzv *r = t->run->rdzv;
    bool has_part =
        r->state == DT_RUN_RUNNING ? m->seat >= 0 && m->round == r->round : m->round >= 0;
    if (*t->node && strcmp(t->node, m->name.text) != 0)
        return false;
    return has_part && dt_rank_set_has(&t->ranks, m->first_rank, m->first_rank + m->workers - 1);
}

static struct teller *find_teller(const struct dt_rdzv_tail *t, uint64_t incarnation)
{
    for (size_t i = 0; i < t->len; i++)
        if (t->tellers[i].incarnation == incarnation)
            return &t->tellers[i];
    return NULL;
}

/* NULL: there are too many, or no memory. */
static struct teller *add_teller(struct dt_rdzv_tail *t, const struct dt_member *m)
{
    if (!t->tellers)
        t->tellers = calloc(DT_TAIL_NODES_MOST, sizeof *t->tellers);
    if (!t->tellers || t->len == DT_TAIL_NODES_MOST)
        return NULL;
    struct teller *n = &t->tellers[t->len++];
    *n = (struct teller){.incarnation = m->id, .number = ++t->numbers, .state = TELLER_GONE};
    snprintf(n->name, sizeof n->name, "%s", m->name.text);
    return n;
}

static void add_member(struct dt_rdzv_tail *t, const struct dt_member *m, bool later)
{
    struct dt_rdzv_conn *c = conn_of(t->run, m->id);
    char why[DT_WHY_MAX];
    if (t->follow && !c)
        return; /* it comes back, and is asked then */
    struct teller *n = add_teller(t, m);
    if (!n || !c)
        return;
    if (m->tails) {
        ask(t, n, c, later);
        return;
    }
    n->state = TELLER_OVER;
    snprintf(why, sizeof why,
             "%.100s has an older dtrun, which cannot tell what workers print; install this one "
             "there",
             n->name);
    say(t, why);
}

static size_t count_concerned(const struct dt_rdzv_tail *t)
{
    size_t count = 0;
    dt_list_each(&t->run->rdzv->members.all, n) count +=
        is_about(t, dt_container_of(n, struct dt_member, in_all));
    return count;
}

/* -- what becomes of it ----------------------------------------------------------------------- */

static void tail_free(struct dt_rdzv_tail *t)
{
    for (size_t i = 0; i < t->len; i++) {
        struct dt_rdzv_conn *agent = conn_of(t->run, t->tellers[i].incarnation);
        if (agent && t->tellers[i].state == TELLER_TELLS)
            send_more(t->run, agent, t->id, 0);
    }
    dt_list_remove(&t->in_run);
    t->conn->tail = NULL;
    free(t->tellers);
    free(t);
}

static void finish(struct dt_rdzv_tail *t, bool done, const char *why)
{
    answer_last(t->conn, t->run->id, done, why);
    tail_free(t);
}

/* A node that has come back has heard nothing since; one that is gone for good gives its place to
 * another. */
static void look_after(struct dt_rdzv_tail *t, struct teller *n)
{
    char why[DT_WHY_MAX];
    struct dt_rdzv_conn *c = conn_of(t->run, n->incarnation);
    if (n->state == TELLER_OVER)
        return;
    if (c && c->number != n->conn) {
        ask(t, n, c, true);
    } else if (!c && n->state == TELLER_TELLS) {
        n->state = TELLER_GONE;
        snprintf(why, sizeof why,
                 "%.100s is not connected to the rendezvous: what its workers print is missing "
                 "from here on",
                 n->name);
        if (t->follow)
            say(t, why);
    }
}

static void drop_teller(struct dt_rdzv_tail *t, size_t i)
{
    t->untaken -= t->tellers[i].bytes;
    t->tellers[i] = t->tellers[--t->len];
}

static void look_after_all(struct dt_rdzv_tail *t)
{
    const struct dt_members *members = &t->run->rdzv->members;
    for (size_t i = t->len; i-- > 0;) {
        look_after(t, &t->tellers[i]);
        if (t->follow && !dt_members_find(members, t->tellers[i].incarnation))
            drop_teller(t, i);
    }
}

static void ask_new(struct dt_rdzv_tail *t, bool later)
{
    dt_list_each(&t->run->rdzv->members.all, n)
    {
        const struct dt_member *m = dt_container_of(n, struct dt_member, in_all);
        if (is_about(t, m) && !find_teller(t, m->id))
            add_member(t, m, later);
    }
}

static dt_ms end_of_patience(const struct dt_rdzv_tail *t)
{
    return t->follow ? DT_FOREVER : dt_clock_after(t->heard, PATIENCE);
}

static bool is_told(const struct dt_rdzv_tail *t, dt_ms now)
{
    bool told = true;
    for (size_t i = 0; i < t->len; i++)
        told &= t->tellers[i].state != TELLER_TELLS;
    return !t->follow && (told || now >= end_of_patience(t));
}

static void finish_told(struct dt_rdzv_tail *t)
{
    char why[DT_WHY_MAX] = "", more[40] = "";
    const char *first = NULL;
    int silent = 0;
    for (size_t i = 0; i < t->len; i++)
        if (t->tellers[i].state != TELLER_OVER && silent++ == 0)
            first = t->tellers[i].name;
    if (silent > 1)
        snprintf(more, sizeof more, " and %d more node%s", silent - 1, silent == 2 ? "" : "s");
    if (silent > 0)
        snprintf(why, sizeof why, "no answer from %.100s%s", first, more);
    finish(t, silent == 0, why);
}

static void finish_closed(struct dt_rdzv_tail *t)
{
    char why[DT_WHY_MAX];
    snprintf(why, sizeof why, "run \"%.100s\" is over: %.250s", t->run->id,
             t->run->rdzv->closed.why);
    finish(t, t->follow, why);
}

static void settle(struct dt_rdzv_tail *t, dt_ms now)
{
    if (t->run->rdzv->state == DT_RUN_CLOSED) {
        finish_closed(t);
        return;
    }
    look_after_all(t);
    if (t->follow)
        ask_new(t, true);
    if (t->untaken > 0) /* the nodes wait for the person */
        t->heard = now;
    if (is_told(t, now))
        finish_told(t);
}

void dt_rdzv_tails_settle(struct dt_rdzv_run *run, dt_ms now)
{
    dt_list_each(&run->tails, n) settle(dt_container_of(n, struct dt_rdzv_tail, in_run), now);
}

dt_ms dt_rdzv_tails_next(const struct dt_rdzv_run *run)
{
    dt_ms next = DT_FOREVER;
    dt_list_each(&run->tails, n)
    {
        dt_ms end = end_of_patience(dt_container_of(n, struct dt_rdzv_tail, in_run));
        next = end < next ? end : next;
    }
    return next;
}

void dt_rdzv_tails_end(struct dt_rdzv_run *run)
{
    dt_list_each(&run->tails, n)
        finish(dt_container_of(n, struct dt_rdzv_tail, in_run), false,
               "the rendezvous has forgotten the run, as none of its nodes is there");
}

/* -- the question ----------------------------------------------------------------------------- */

static size_t count_tails(const struct dt_list *l)
{
    size_t count = 0;
    dt_list_each(l, n) count++;
    return count;
}

/* Whether there is room for one more, for whoever asks. */
static bool has_room(const struct dt_rdzv_runs *runs, const struct dt_rdzv_run *run, char *why,
                     size_t size)
{
    size_t all = 0;
    dt_list_each(&runs->all, n) all +=
        count_tails(&dt_container_of(n, struct dt_rdzv_run, in_all)->tails);
    if (count_tails(&run->tails) >= DT_TAILS_OF_RUN)
        snprintf(why, size, "%d people read what this run prints already; try again later",
                 DT_TAILS_OF_RUN);
    else if (all >= DT_TAILS_OF_SERVER)
        snprintf(why, size, "%d people read what runs print already; try again later",
                 DT_TAILS_OF_SERVER);
    else
        return true;
    return false;
}

static bool may_read(const struct dt_rdzv_runs *runs, const struct dt_rdzv_run *run,
                     struct dt_rdzv_conn *c, const struct dt_message *m, char *why, size_t size)
{
    struct dt_asker who = dt_rdzv_conn_asker(c, m);
    if (run)
        return dt_authority_over_logs(runs->operator_key, &who, run->rdzv, why, size);
    snprintf(why, size, "there is no run \"%.100s\"; \"dtrun-ctl status\" lists the runs", m->run);
    return false;
}

/* Who wanted to read until the run ends has nothing to complain of. */
static void answer_closed(struct dt_rdzv_conn *c, const struct dt_rdzv_run *run,
                          const struct dt_message *m)
{
    char why[DT_WHY_MAX];
    snprintf(why, sizeof why,
             "run \"%.60s\" is over (%.150s), and so are the agents that kept what it printed; a "
             "--log-dir has it still",
             run->id, run->rdzv->closed.why);
    answer_last(c, run->id, m->logs.follow, why);
}

static struct dt_rdzv_tail *tail_create(struct dt_rdzv_runs *runs, struct dt_rdzv_run *run,
                                        struct dt_rdzv_conn *c, const struct dt_message *m)
{
    struct dt_rdzv_tail *t = calloc(1, sizeof *t);
    if (!t)
        return NULL;
    *t = (struct dt_rdzv_tail){.conn = c, .run = run, .heard = (dt_ms)uv_now(runs->loop)};
    if (runs->last_tail == 0) /* an agent may know one of a server before this one */
        runs->last_tail = (int64_t)(dt_map_random_seed() >> 12);
    t->id = ++runs->last_tail;
    t->lines = m->logs.lines;
    t->follow = m->logs.follow;
    snprintf(t->node, sizeof t->node, "%s", m->logs.node);
    dt_node_init(&t->in_run);
    dt_list_append(&run->tails, &t->in_run);
    c->tail = t;
    return t;
}

/* Why nobody is asked. */
static void explain_nobody(const struct dt_rdzv_tail *t, char *why, size_t size)
{
    const struct dt_rdzv *r = t->run->rdzv;
    if (*t->node && !dt_members_find_name(&r->members, t->node))
        snprintf(why, size,
                 "run \"%.100s\" has no node \"%.100s\"; \"dtrun-ctl status\" lists them",
                 t->run->id, t->node);
    else if (r->state != DT_RUN_RUNNING)
        snprintf(why, size, "run \"%.100s\" is %s, and none of its nodes has run such workers",
                 t->run->id, dt_run_state_name(r->state));
    else if (*t->node)
        snprintf(why, size, "%.100s has no such workers in this round", t->node);
    else
        snprintf(why, size, "run \"%.100s\" has no such rank; its ranks are 0 to %d", t->run->id,
                 r->size - 1);
}

static void begin(struct dt_rdzv_tail *t, dt_ms now)
{
    char why[DT_WHY_MAX];
    size_t concerned = count_concerned(t);
    bool waits = t->follow && t->run->rdzv->state != DT_RUN_RUNNING;
    if (concerned > DT_TAIL_NODES_MOST) {
        snprintf(why, sizeof why,
                 "%zu nodes have such workers, and at most %d are asked; name ranks, or a node",
                 concerned, DT_TAIL_NODES_MOST);
        finish(t, false, why);
    } else if (concerned == 0 && !waits) {
        explain_nobody(t, why, sizeof why);
        finish(t, false, why);
    } else {
        ask_new(t, false);
        settle(t, now);
    }
}

/* Why M cannot be answered; false: it can. */
static bool is_refused(const struct dt_rdzv_runs *runs, const struct dt_rdzv_run *run,
                       struct dt_rdzv_conn *c, const struct dt_message *m,
                       struct dt_rank_set *ranks, char *why, size_t size)
{
    struct dt_err err;
    if (!may_read(runs, run, c, m, why, size) || !has_room(runs, run, why, size))
        return true;
    if (dt_rank_set_read(m->logs.ranks, ranks, &err) == 0)
        return false;
    snprintf(why, size, "%.200s", err.text);
    return true;
}

void dt_rdzv_tails_take(struct dt_rdzv_runs *runs, struct dt_rdzv_run *run, struct dt_rdzv_conn *c,
                        const struct dt_message *m)
{
    char why[DT_WHY_MAX];
    struct dt_rank_set ranks;
    dt_rdzv_tails_leave(c);
    if (is_refused(runs, run, c, m, &ranks, why, sizeof why)) {
        answer_last(c, m->run, false, why);
        return;
    }
    if (run->rdzv->state == DT_RUN_CLOSED) {
        answer_closed(c, run, m);
        return;
    }
    struct dt_rdzv_tail *t = tail_create(runs, run, c, m);
    if (!t) {
        dt_rdzv_conn_end(c);
        return;
    }
    t->ranks = ranks;
    begin(t, (dt_ms)uv_now(runs->loop));
}

/* -- pages ------------------------------------------------------------------------------------ */

void dt_rdzv_tails_hear(struct dt_rdzv_run *run, struct dt_rdzv_conn *c, const struct dt_message *m,
                        dt_ms now)
{
    struct dt_rdzv_tail *t = NULL;
    dt_list_each(&run->tails, n)
    {
        struct dt_rdzv_tail *of = dt_container_of(n, struct dt_rdzv_tail, in_run);
        t = of->id == m->tailed.id ? of : t;
    }
    struct teller *from = t ? find_teller(t, c->incarnation) : NULL;
    if (!from || from->state != TELLER_TELLS || from->conn != c->number) {
        if (!m->tailed.over)
            send_more(run, c, m->tailed.id, 0);
        return;
    }
    t->heard = now;
    if (m->tailed.json)
        pass_on(t, from, m->tailed.json);
    if (m->tailed.over)
        from->state = TELLER_OVER;
    if (is_told(t, now))
        finish_told(t);
}

static void take_answer(struct dt_rdzv_tail *t, struct teller *n)
{
    if (n->pages == 0 || --n->pages > 0)
        return;
    t->untaken -= n->bytes;
    n->bytes = 0;
    n->waits = true;
}

static void let_go_on(struct dt_rdzv_tail *t, struct teller *n)
{
    struct dt_rdzv_conn *agent = conn_of(t->run, n->incarnation);
    if (n->waits && n->state == TELLER_TELLS && agent && agent->number == n->conn)
        send_more(t->run, agent, t->id, room(t));
    n->waits = false;
}

void dt_rdzv_tails_go_on(struct dt_rdzv_conn *c, const struct dt_message *m, dt_ms now)
{
    struct dt_rdzv_tail *t = c->tail;
    if (!t)
        return;
    t->asked_if_there = false;
    t->heard = now;
    for (size_t i = 0; i < t->len; i++)
        if (t->tellers[i].number == m->more.id)
            take_answer(t, &t->tellers[i]);
    /* Also those whose page was left out, since there is room again. */
    for (size_t i = 0; i < t->len && t->untaken <= UNTAKEN_MOST / 2; i++)
        let_go_on(t, &t->tellers[i]);
}

/* -- coming and going ------------------------------------------------------------------------- */

bool dt_rdzv_tails_excuse(struct dt_rdzv_conn *c)
{
    struct dt_rdzv_tail *t = c->tail;
    if (!t || t->asked_if_there)
        return false;
    t->asked_if_there = true;
    struct dt_message m = {.type = DT_MSG_LOGS, .run = t->run->id, .logs = {.asks = true}};
    dt_rdzv_conn_send(c, &m);
    return true;
}

void dt_rdzv_tails_leave(struct dt_rdzv_conn *c)
{
    if (c->tail)
        tail_free(c->tail);
}
