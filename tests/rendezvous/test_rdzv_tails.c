/* SPDX-License-Identifier: Apache-2.0 */
/* People who read what the workers of a run print. */
#include "rendezvous/runs/tails.h"
#include "tests/rendezvous/rdzv_stage.h"

#define PAGE "{\"role\":\"default\",\"round\":0,\"pieces\":[]}"

static struct stage st;
static struct node a, b;

/* Two nodes, which run two workers each. */
static void begin_with(const struct dt_rdzv_server_config *config)
{
    stage_open(&st, config);
    a = node_of("job", "a", 1, 2);
    b = node_of("job", "b", 2, 2);
    snprintf(a.spec.user, sizeof a.spec.user, "ada");
    snprintf(b.spec.user, sizeof b.spec.user, "ada");
    node_enter(&a, st.serving.port);
    node_enter(&b, st.serving.port);
    node_run(&a);
    node_run(&b);
}

static void begin(void)
{
    begin_with(&usual);
}

static void end(void)
{
    node_finish(&a);
    node_finish(&b);
    stage_close(&st);
}

struct question {
    const char *run; /* NULL: job */
    const char *ranks, *node;
    bool follow;
};

#define ASK(p, ...) ask(p, &(struct question){__VA_ARGS__})

static void ask(struct node *person, const struct question *q)
{
    const char *run = q->run ? q->run : "job";
    *person = node_of(run, "a person", 0, 1);
    node_greet(person, st.serving.port);
    CHECK(person->heard.hello.logs);
    node_send(person,
              &(struct dt_message){
                  .type = DT_MSG_LOGS,
                  .run = run,
                  .user = "ada",
                  .logs = {.ranks = q->ranks, .node = q->node, .lines = 10, .follow = q->follow}});
}

static void go_on(struct node *person, int from)
{
    node_send(person, &(struct dt_message){
                          .type = DT_MSG_MORE, .run = "job", .round = -1, .more = {.id = from}});
}

/* The question came to N, whose id this is. */
static int64_t asked(struct node *n, int lines, const char *ranks)
{
    const struct dt_message *m = node_hear(n, DT_MSG_TAIL);
    CHECK_EQ(m->tail.lines, lines);
    CHECK_STR(m->tail.ranks, ranks);
    CHECK(m->tail.room > 0);
    return m->tail.id;
}

static void tell(struct node *n, int64_t id, const char *page, bool over)
{
    struct dt_message m = node_message(n, DT_MSG_TAILED);
    m.tailed.id = id;
    m.tailed.over = over;
    m.tailed.json = page;
    node_send(n, &m);
}

/* A page of NODE comes; returns what it is from. */
static int page_of(struct node *person, const char *node)
{
    char words[120];
    const struct dt_message *m = node_hear(person, DT_MSG_LOGS);
    snprintf(words, sizeof words, "{\"node\":\"%s\",\"told\":" PAGE "}", node);
    CHECK_STR(m->logs.json ? m->logs.json : m->why, words);
    CHECK(m->logs.from > 0);
    return m->logs.from;
}

static void check_over(struct node *person, bool done, const char *words)
{
    const struct dt_message *m = node_hear(person, DT_MSG_LOGS);
    CHECK(m->logs.over);
    CHECK_EQ(m->logs.done, done);
    if (!strstr(m->why, words))
        CHECK_STR(m->why, words);
    node_finish(person);
}

/* Nothing but the echo comes, which would be behind. */
static void hears_nothing(struct node *n)
{
    node_beat(n);
}

TEST(what_each_node_tells_is_passed_on_and_the_end_when_all_are_through)
{
    struct node p;
    begin();
    ASK(&p, .run = "job");
    int64_t id = asked(&a, 10, "");
    CHECK_EQ(asked(&b, 10, ""), id);
    tell(&a, id, PAGE, false);
    int from_a = page_of(&p, "a");
    hears_nothing(&a); /* a page is on its way */
    go_on(&p, from_a);
    CHECK_EQ(node_hear(&a, DT_MSG_MORE)->more.id, id);
    tell(&b, id, PAGE, true);
    CHECK(page_of(&p, "b") != from_a);
    tell(&a, id, NULL, true);
    check_over(&p, true, "");
    end();
}

TEST(only_nodes_of_these_ranks_are_asked)
{
    struct node p;
    begin();
    ASK(&p, .ranks = "2-3");
    int64_t id = asked(&b, 10, "2-3");
    hears_nothing(&a);
    tell(&b, id, NULL, true);
    check_over(&p, true, "");
    ASK(&p, .node = "a");
    tell(&a, asked(&a, 10, ""), NULL, true);
    hears_nothing(&b);
    check_over(&p, true, "");
    ASK(&p, .ranks = "4");
    check_over(&p, false, "run \"job\" has no such rank; its ranks are 0 to 3");
    ASK(&p, .node = "c");
    check_over(&p, false, "run \"job\" has no node \"c\"");
    ASK(&p, .node = "a", .ranks = "3");
    check_over(&p, false, "a has no such workers in this round");
    ASK(&p, .ranks = "x");
    check_over(&p, false, "\"x\" are no ranks");
    ASK(&p, .run = "other");
    check_over(&p, false, "there is no run \"other\"");
    end();
}

/* A node that waits for a person says nothing either, for just as long. */
TEST(who_says_nothing_is_named)
{
    struct node p, slow;
    begin();
    ASK(&slow, .ranks = "0");
    int64_t slow_id = asked(&a, 10, "0");
    tell(&a, slow_id, PAGE, false);
    int from_a = page_of(&slow, "a");
    ASK(&p, .run = "job");
    int64_t id = asked(&a, 10, "");
    tell(&a, id, NULL, true);
    check_over(&p, false, "no answer from b");
    asked(&b, 10, "");
    CHECK_EQ(node_hear(&b, DT_MSG_MORE)->more.room, 0); /* nobody wants it any more */
    go_on(&slow, from_a);
    CHECK(node_hear(&a, DT_MSG_MORE)->more.room > 0);
    tell(&a, slow_id, NULL, true);
    check_over(&slow, true, "");
    end();
}

TEST(who_is_gone_meanwhile_is_named)
{
    struct node p;
    begin();
    ASK(&p, .run = "job");
    tell(&a, asked(&a, 10, ""), NULL, true);
    asked(&b, 10, "");
    node_hang_up(&b);
    check_over(&p, false, "no answer from b");
    end();
}

TEST(who_follows_hears_until_the_run_ends)
{
    struct node p;
    begin();
    ASK(&p, .follow = true);
    int64_t id = asked(&a, 10, "");
    asked(&b, 10, "");
    tell(&a, id, PAGE, false);
    go_on(&p, page_of(&p, "a"));
    node_hear(&a, DT_MSG_MORE);
    node_succeed(&a);
    node_succeed(&b);
    check_over(&p, true, "run \"job\" is over: ");
    ASK(&p, .follow = true);
    check_over(&p, true, "run \"job\" is over (");
    ASK(&p, .run = "job");
    check_over(&p, false, "a --log-dir has it still");
    end();
}

TEST(a_node_that_comes_back_tells_again_what_it_has)
{
    struct node p;
    begin();
    ASK(&p, .follow = true, .ranks = "2");
    int64_t id = asked(&b, 10, "2");
    tell(&b, id, PAGE, false);
    page_of(&p, "b");
    node_hang_up(&b);
    CHECK(strstr(node_hear(&p, DT_MSG_LOGS)->why, "b is not connected to the rendezvous"));
    node_enter(&b, st.serving.port);
    CHECK_EQ(asked(&b, DT_TAIL_ALL, "2"), id);
    tell(&b, id, PAGE, false);
    page_of(&p, "b");
    node_finish(&p);
    CHECK_EQ(node_hear(&b, DT_MSG_MORE)->more.room, 0);
    end();
}

TEST(the_nodes_of_later_rounds_are_asked_too)
{
    struct node p;
    begin();
    ASK(&p, .follow = true);
    int64_t id = asked(&a, 10, "");
    asked(&b, 10, "");
    struct dt_message failed = node_message(&b, DT_MSG_RESULT);
    failed.result = (struct dt_result){.exit_code = 1, .signature = "", .text = "it failed"};
    node_send(&b, &failed);
    tell(&b, id, PAGE, false); /* its last words */
    page_of(&p, "b");
    node_stop(&a);
    b.claim = (struct dt_claim){.seat = -1};
    node_hear(&b, DT_MSG_STOP);
    b.incarnation = 3; /* it was started anew */
    node_hang_up(&b);
    node_enter(&b, st.serving.port);
    node_run(&a);
    node_run(&b);
    CHECK_EQ(asked(&b, DT_TAIL_ALL, ""), id);
    node_finish(&p);
    end();
}

/* 60 kB. */
static void put_large_page(struct dt_buf *page)
{
    dt_buf_put_str(page, "{\"role\":\"");
    for (int i = 0; i < 60000; i++)
        dt_buf_put_u8(page, 'x');
    dt_buf_put_str(page, "\"}");
}

TEST(a_node_that_there_was_no_room_for_is_asked_to_go_on)
{
    enum { FITTING = 34 }; /* pages in 2 MiB */
    struct node p;
    struct dt_buf page = {0};
    begin();
    put_large_page(&page);
    ASK(&p, .follow = true);
    int64_t id = asked(&a, 10, "");
    asked(&b, 10, "");
    for (int i = 0; i < FITTING; i++)
        tell(&a, id, dt_buf_cstr(&page), false);
    hears_nothing(&a);
    tell(&b, id, dt_buf_cstr(&page), false);
    hears_nothing(&b); /* its page was left out, so nobody answers it */
    for (int i = 0; i < FITTING; i++)
        go_on(&p, node_hear(&p, DT_MSG_LOGS)->logs.from);
    CHECK_EQ(node_hear(&a, DT_MSG_MORE)->more.id, id);
    CHECK_EQ(node_hear(&b, DT_MSG_MORE)->more.id, id);
    tell(&b, id, PAGE, false);
    page_of(&p, "b");
    node_finish(&p);
    dt_buf_finish(&page);
    end();
}

TEST(a_slow_reader_gets_no_more_than_is_due)
{
    struct node p, other;
    struct dt_buf page = {0};
    begin();
    ASK(&p, .follow = true, .ranks = "0");
    int64_t id = asked(&a, 10, "0");
    put_large_page(&page);
    for (int i = 0; i < 100; i++) /* 6 MB that nobody asked for */
        tell(&a, id, dt_buf_cstr(&page), false);
    hears_nothing(&a);
    node_beat(&b);
    go_on(&p, 0);
    ASK(&other, .run = "other"); /* the daemon is well, and has not kept all that */
    check_over(&other, false, "there is no run");
    CHECK(counters(&st)->bytes_out < 4000000);
    node_finish(&p);
    dt_buf_finish(&page);
    end();
}

TEST(so_many_may_read_and_no_more)
{
    struct node p[DT_TAILS_OF_RUN + 1];
    begin();
    for (int i = 0; i < DT_TAILS_OF_RUN; i++) {
        CHECK_ROW("%d", i);
        ASK(&p[i], .follow = true, .ranks = "0");
        asked(&a, 10, "0");
    }
    ASK(&p[DT_TAILS_OF_RUN], .follow = true);
    check_over(&p[DT_TAILS_OF_RUN], false, "8 people read what this run prints already");
    node_finish(&p[0]);
    CHECK_EQ(node_hear(&a, DT_MSG_MORE)->more.room, 0);
    ASK(&p[0], .follow = true, .ranks = "0");
    asked(&a, 10, "0");
    for (int i = 0; i < DT_TAILS_OF_RUN; i++)
        node_finish(&p[i]);
    end();
}

/* The user of this test is the rendezvous' own, so a unix socket or loopback would let it read all:
 * that rule is in test_authority. */
TEST(who_reads_nothing_is_asked_whether_it_is_there)
{
    struct dt_rdzv_server_config hasty = usual;
    struct node p;
    hasty.patience = 300;
    begin_with(&hasty);
    ASK(&p, .follow = true, .ranks = "0");
    asked(&a, 10, "0");
    CHECK(node_hear(&p, DT_MSG_LOGS)->logs.asks);
    go_on(&p, 0);
    CHECK(node_hear(&p, DT_MSG_LOGS)->logs.asks);
    node_expect_end(&p);
    CHECK_EQ(node_hear(&a, DT_MSG_MORE)->more.room, 0);
    node_finish(&p);
    end();
}
