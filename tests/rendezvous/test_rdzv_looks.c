/* SPDX-License-Identifier: Apache-2.0 */
/* People who ask a rendezvous what all workers of a run do. */
#include "tests/rendezvous/rdzv_stage.h"

static struct stage st;
static struct node a, b;

/* Two nodes, which run two workers each. */
static void begin(void)
{
    stage_open(&st, &usual);
    a = node_of("job", "a", 1, 2);
    b = node_of("job", "b", 2, 2);
    node_enter(&a, st.serving.port);
    node_enter(&b, st.serving.port);
    node_run(&a);
    node_run(&b);
}

static void end(void)
{
    node_finish(&a);
    node_finish(&b);
    stage_close(&st);
}

static void ask(struct node *person, const char *run)
{
    *person = node_of(run, "a person", 0, 1);
    node_greet(person, st.serving.port);
    node_send(person, &(struct dt_message){.type = DT_MSG_STANCES, .run = run});
}

static void ask_native(struct node *person)
{
    *person = node_of("job", "a person", 0, 1);
    node_greet(person, st.serving.port);
    node_send(person, &(struct dt_message){
                          .type = DT_MSG_STANCES, .run = "job", .stances = {.native = true}});
}

static void check_page(struct node *person, const char *words)
{
    const struct dt_message *m = node_hear(person, DT_MSG_STANCES);
    CHECK_STR(m->why, "");
    CHECK(m->stances.json && strstr(m->stances.json, words) != NULL);
    node_finish(person);
}

static void check_refused(struct node *person, const char *words)
{
    const struct dt_message *m = node_hear(person, DT_MSG_STANCES);
    CHECK(strstr(m->why, words) != NULL);
    CHECK(m->stances.json == NULL);
    node_finish(person);
}

/* Both of its workers sleep, each at a line of its own node's. Whether it was asked for C code. */
static bool answer_look(struct node *n, const char *where)
{
    int first = n->claim.first_rank;
    struct dt_rank_range range = {first, first + 1};
    struct dt_stance_group g = {.stance = {.doing = DT_DOING_SLEEP, .sequence = -1, .step = -1},
                                .ranges = &range,
                                .len = 1,
                                .ranks = 2};
    struct dt_message m = node_message(n, DT_MSG_LOOKED);
    snprintf(g.stance.where, sizeof g.stance.where, "%s", where);
    const struct dt_message *asked = node_hear(n, DT_MSG_LOOK);
    bool native = asked->look.native;
    m.looked.id = asked->look.id;
    m.looked.stances = (struct dt_stances){&g, 1};
    node_send(n, &m);
    return native;
}

TEST(who_asks_meanwhile_gets_the_same_answer)
{
    struct node p, q;
    begin();
    ask(&p, "job");
    answer_look(&a, "a.py:1");
    ask(&q, "job");
    node_beat(&a); /* it was not asked again: its echo comes next */
    answer_look(&b, "b.py:2");
    check_page(&p, "\"where\":\"a.py:1\"");
    check_page(&q, "\"round\":0,\"size\":4,\"standstill\":\"\",\"silent\":[],\"silent_nodes\":0,");
    ask(&p, "job");
    check_page(&p, "\"where\":\"b.py:2\"");
    node_beat(&a);
    end();
}

TEST(who_wants_c_code_too_waits_for_a_look_of_its_own)
{
    struct node p, q;
    begin();
    ask(&p, "job");
    CHECK(!answer_look(&a, "a.py:1"));
    ask_native(&q);
    node_beat(&a);
    CHECK(!answer_look(&b, "b.py:2"));
    check_page(&p, "\"where\":\"a.py:1\"");
    CHECK(answer_look(&a, "a.c"));
    CHECK(answer_look(&b, "b.c"));
    check_page(&q, "\"where\":\"a.c\"");
    ask(&p, "job");
    check_page(&p, "\"where\":\"b.c\"");
    end();
}

TEST(who_does_not_answer_is_named)
{
    struct node p;
    begin();
    ask(&p, "job");
    answer_look(&a, "a.py:1");
    check_page(&p, "\"silent\":[{\"name\":\"b\"}],\"silent_nodes\":1,");
    end();
}

TEST(a_run_whose_workers_do_not_run_cannot_be_looked_at)
{
    struct node p, c;
    begin();
    ask(&p, "other");
    check_refused(&p, "there is no run \"other\"");
    c = node_of("more", "c", 3, 2);
    node_enter(&c, st.serving.port);
    node_beat(&c);
    ask(&p, "more");
    check_refused(&p, "run \"more\" is gathering, so no workers run");
    node_finish(&c);
    end();
}

TEST(a_round_that_ends_meanwhile_is_said)
{
    struct node p;
    begin();
    ask(&p, "job");
    answer_look(&a, "a.py:1");
    struct dt_message failed = node_message(&b, DT_MSG_RESULT);
    failed.result = (struct dt_result){.exit_code = 1, .signature = "", .text = "it failed"};
    node_send(&b, &failed);
    check_refused(&p, "the round ended while its workers were looked at");
    end();
}

TEST(who_goes_before_the_answer_is_forgotten)
{
    struct node p;
    begin();
    ask(&p, "job");
    node_hear(&a, DT_MSG_LOOK);
    node_hang_up(&p);
    node_finish(&p);
    node_hang_up(&a);
    node_hang_up(&b);
    end();
}
