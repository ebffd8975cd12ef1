/* SPDX-License-Identifier: Apache-2.0 */
/* People who ask a rendezvous what happened, and wait for what happens next; and what of it is
 * there after a restart. */
#include "rendezvous/events/chronicle.h"
#include "rendezvous/journal/journal.h"
#include "tests/lib/folder.h"
#include "tests/rendezvous/rdzv_stage.h"

BEFORE_ALL
{
    folder_make();
}

static struct stage st;

static void greet_at(struct node *person, const struct stage *where)
{
    *person = node_of("", "a person", 0, 1);
    node_greet(person, where->serving.port);
}

static void greet(struct node *person)
{
    greet_at(person, &st);
}

static void ask(struct node *person, const char *run, int64_t after, bool follow)
{
    node_send(person, &(struct dt_message){.type = DT_MSG_EVENTS,
                                           .run = run,
                                           .events = {.after = after, .follow = follow}});
}

/* The page, which is good until the next is heard. */
static const char *page(struct node *person)
{
    return node_hear(person, DT_MSG_EVENTS)->events.json;
}

static void drain(struct node *person, const char *name, bool undo)
{
    node_send(person, &(struct dt_message){.type = DT_MSG_DRAIN,
                                           .run = "",
                                           .drain = {.node = name, .undo = undo},
                                           .why = undo ? "" : "a new disk"});
    CHECK(node_hear(person, DT_MSG_DRAIN)->drain.done);
}

static int count(const char *text, const char *word)
{
    int n = 0;
    for (; (text = strstr(text, word)); text++)
        n++;
    return n;
}

TEST(what_happened_is_on_a_page)
{
    struct node n = node_of("job", "a", 1, 1), p;
    stage_open(&st, &usual);
    node_enter(&n, st.serving.port);
    node_run(&n);
    greet(&p);
    ask(&p, "", 0, false);
    const char *all = page(&p);
    CHECK_EQ(count(all, "\"number\":"), 4);
    CHECK(strstr(all, "{\"number\":1,\"time\":\"2") != NULL);
    CHECK(strstr(all, "\"kind\":\"server_started\",\"weight\":\"info\","
                      "\"words\":\"the rendezvous started\"") != NULL);
    CHECK(strstr(all, "\"kind\":\"node_joined\",\"weight\":\"info\",\"run\":\"job\",\"round\":0,"
                      "\"node\":\"a\",\"words\":\"a (a) came: 1 of 1:1 nodes\"") != NULL);
    CHECK(strstr(all, "\"last\":4,\"newest\":4,\"missed\":0}") != NULL);
    ask(&p, "job", 2, false);
    CHECK_EQ(count(page(&p), "\"run\":\"job\""), 2); /* node_joined, round_began */
    ask(&p, "another", 0, false);
    CHECK(strstr(page(&p), "{\"events\":[],\"last\":4,") != NULL);
    node_send(&p, &(struct dt_message){.type = DT_MSG_EVENTS,
                                       .run = "",
                                       .events.since_us = dt_clock_wall_us() + 3600000000});
    CHECK(strstr(page(&p), "{\"events\":[],\"last\":4,") != NULL);
    node_finish(&n);
    node_finish(&p);
    stage_close(&st);
}

TEST(what_is_wrong_with_a_host_is_an_event_also_of_an_agent_that_does_not_join)
{
    struct node n = node_of("job", "a", 1, 1), p;
    stage_open(&st, &usual);
    node_greet(&n, st.serving.port);
    for (int failed = 0; failed < 2; failed++)
        node_send(&n, &(struct dt_message){.type = DT_MSG_REMARK,
                                           .run = "job",
                                           .round = -1,
                                           .incarnation = 1,
                                           .remark = {.node = "a", .failed = failed},
                                           .why = failed ? "gpus: one is lost" : "shm: small"});
    greet(&p);
    ask(&p, "job", 2, true); /* behind the first of the two, so both are there */
    const char *words = page(&p);
    CHECK(strstr(words, "\"kind\":\"preflight_failed\",\"weight\":\"warning\",\"run\":\"job\","
                        "\"node\":\"a\",\"words\":\"gpus: one is lost\"") != NULL);
    ask(&p, "job", 0, false);
    CHECK(strstr(page(&p), "\"kind\":\"preflight_warned\",\"weight\":\"warning\",\"run\":\"job\","
                           "\"node\":\"a\",\"words\":\"shm: small\"") != NULL);
    node_finish(&n);
    node_finish(&p);
    stage_close(&st);
}

TEST(of_an_agents_remarks_people_are_told_so_many)
{
    struct node n = node_of("job", "a", 1, 1);
    stage_open(&st, &usual);
    node_greet(&n, st.serving.port);
    for (int i = 0; i < 2 * DT_REMARKS_MOST; i++)
        node_send(&n, &(struct dt_message){.type = DT_MSG_REMARK,
                                           .run = "job",
                                           .round = -1,
                                           .incarnation = 1,
                                           .remark = {.node = "a", .failed = true},
                                           .why = "gpus: one is lost"});
    ask(&n, "job", 0, false);
    CHECK_EQ(count(page(&n), "\"preflight_failed\""), DT_REMARKS_MOST);
    node_finish(&n);
    stage_close(&st);
}

/* As of one file system that a crowd of nodes shares; here one node tells it again and again. */
TEST(of_disks_that_are_low_not_each_is_told)
{
    enum { TIMES = 1000 };
    struct node n = node_of("job", "a", 1, 1);
    stage_open(&st, &usual);
    node_enter(&n, st.serving.port);
    node_run(&n);
    for (int i = 1; i <= 2 * TIMES; i++) {
        struct dt_message beat = node_message(&n, DT_MSG_BEAT);
        beat.beat = (struct dt_beat){.seq = i,
                                     .step = 1,
                                     .running = 1,
                                     .telemetry = {.number = i,
                                                   .disk = "/shared",
                                                   .disk_free_mib = i % 2 ? 0 : 100,
                                                   .disk_total_mib = 100}};
        node_send(&n, &beat);
        CHECK_EQ(node_hear(&n, DT_MSG_BEAT)->beat.seq, i);
    }
    ask(&n, "job", INT32_MAX, false);
    const char *newest = strstr(page(&n), "\"newest\":");
    CHECK(newest != NULL);
    int happened = atoi(newest + strlen("\"newest\":"));
    CHECK(happened > TIMES && happened < 2 * TIMES);
    node_finish(&n);
    stage_close(&st);
}

TEST(who_follows_hears_of_the_next_event)
{
    struct node n = node_of("job", "a", 1, 1), operator, p, q, gone;
    stage_open(&st, &usual);
    greet(&operator);
    greet(&p);
    greet(&q);
    greet(&gone);
    ask(&p, "", 1, true);
    ask(&q, "job", 1, true);
    ask(&gone, "", 1, true);
    node_finish(&gone);
    drain(&operator, "x", false);
    CHECK(strstr(page(&p), "\"kind\":\"node_drained\",\"weight\":\"warning\",\"node\":\"x\","
                           "\"words\":\"x is drained (a new disk)\"") != NULL);
    ask(&p, "", 2, true);
    drain(&operator, "x", true);
    CHECK(strstr(page(&p), "\"kind\":\"node_undrained\"") != NULL);
    node_enter(&n, st.serving.port);
    CHECK(strstr(page(&q), "\"kind\":\"run_began\"") != NULL);
    node_finish(&n);
    node_finish(&operator);
    node_finish(&p);
    node_finish(&q);
    stage_close(&st);
}

TEST(another_question_takes_the_place_of_the_one_that_waits)
{
    struct node p;
    stage_open(&st, &usual);
    greet(&p);
    ask(&p, "", 1, true);
    ask(&p, "job", 1, true);
    ask(&p, "", 0, false);
    CHECK(strstr(page(&p), "server_started") != NULL);
    drain(&p, "x", false); /* its answer is the next thing that is heard */
    node_finish(&p);
    stage_close(&st);
}

TEST(who_waits_for_long_is_told_that_nothing_happened)
{
    struct dt_rdzv_server_config config = usual;
    struct node p;
    config.patience = 50;
    stage_open(&st, &config);
    greet(&p);
    for (int i = 0; i < 3; i++) {
        ask(&p, "", 1, true);
        CHECK(strstr(page(&p), "{\"events\":[],\"last\":1,") != NULL);
    }
    node_expect_end(&p); /* who does not ask again goes */
    node_finish(&p);
    stage_close(&st);
}

static void come_without_a_greeting(void)
{
    struct node n = node_of("job", "a", 1, 1);
    struct dt_buf out = {0};
    n.fd = peer_connect(st.serving.port);
    dt_control_put_preamble(&out);
    peer_send(n.fd, out.at, out.len);
    dt_buf_finish(&out);
    node_join(&n);
    node_hear(&n, DT_MSG_HELLO);
    CHECK(strstr(node_hear(&n, DT_MSG_REFUSED)->why, "a join and no hello") != NULL);
    node_finish(&n);
}

TEST(strangers_are_told_of_but_push_nothing_out)
{
    struct node p;
    stage_open(&st, &usual);
    for (int i = 0; i < 30; i++)
        come_without_a_greeting();
    greet(&p);
    ask(&p, "", 0, false);
    const char *all = page(&p);
    CHECK(strstr(all, "\"words\":\"127.0.0.1:") != NULL);
    CHECK(strstr(all, " is refused: its first frame is a join and no hello\"") != NULL);
    CHECK_EQ(count(all, "\"kind\":\"client_refused\",\"weight\":\"warning\""), 10);
    node_finish(&p);
    stage_close(&st);
}

/* -- after a restart -------------------------------------------------------------------------- */

static void open_at(struct stage *where, const char *state_dir)
{
    struct dt_rdzv_server_config config = usual;
    config.state_dir = state_dir;
    stage_open(where, &config);
}

static size_t size_of(const char *path)
{
    struct stat status;
    CHECK_EQ(stat(path, &status), 0);
    return (size_t)status.st_size;
}

static void copy_cut(const char *from, const char *to, size_t len)
{
    char command[1200];
    snprintf(command, sizeof command,
             "rm -rf '%s' && mkdir -m 0700 '%s' && head -c %zu '%s/journal' >'%s/journal'", to, to,
             len, from, to);
    CHECK_EQ(system(command), 0);
}

/* What a crash left is the beginning of what happened, in its order, and numbers go on behind it.
 * Returns how many events there are. */
static int check_order(void)
{
    struct node p;
    char word[64];
    greet(&p);
    ask(&p, "", 0, false);
    const char *all = page(&p), *at = all;
    int there = count(all, "\"number\":");
    for (int i = 1; i <= there; i++) {
        CHECK_ROW("event %d of %d", i, there);
        snprintf(word, sizeof word, "{\"number\":%d,", i);
        CHECK((at = strstr(at, word)) != NULL);
    }
    snprintf(word, sizeof word, "\"last\":%d,\"newest\":%d,", there, there);
    CHECK(strstr(all, word) != NULL);
    CHECK_EQ(count(all, "server_started"), 2);
    node_finish(&p);
    return there;
}

TEST(events_survive_a_kill_at_any_byte)
{
    struct stage whole;
    struct node p;
    char dir_of_state[300], dir_of_cut[300], file[320];
    snprintf(dir_of_state, sizeof dir_of_state, "%s", at("whole"));
    snprintf(dir_of_cut, sizeof dir_of_cut, "%s", at("cut"));
    snprintf(file, sizeof file, "%s/journal", dir_of_state);
    open_at(&whole, dir_of_state);
    size_t first = size_of(file);
    greet_at(&p, &whole);
    drain(&p, "x", false);
    drain(&p, "x", true);
    size_t end = size_of(file); /* as a kill leaves it: the server still runs */
    for (size_t cut = first; cut <= end; cut++) {
        CHECK_ROW("cut at byte %zu of %zu", cut, end);
        copy_cut(dir_of_state, dir_of_cut, cut);
        open_at(&st, dir_of_cut);
        int there = check_order();
        CHECK(there >= 2 && there <= 4);
        CHECK(cut < end || there == 4);
        stage_close(&st);
    }
    node_finish(&p);
    stage_close(&whole);
}

static void on_replay(void *arg, struct dt_bytes key, struct dt_bytes value)
{
    (void)key;
    (void)value;
    ++*(int *)arg;
}

/* A journal as a server leaves it that had more events than it keeps. */
static void write_events(const char *state_dir, uint64_t from, uint64_t to)
{
    uv_loop_t loop;
    struct dt_err err = {0};
    int records = 0;
    uv_loop_init(&loop);
    struct dt_journal *j = dt_journal_open(&loop, state_dir, on_replay, &records, &err);
    CHECK_STR(err.text, "");
    for (uint64_t n = from; n <= to; n++) {
        struct dt_buf value = {0};
        char key[32];
        snprintf(key, sizeof key, "event/%d", (int)n);
        dt_event_save(&(struct dt_event){.number = n, .round = -1, .rank = -1, .words = "old"},
                      &value);
        CHECK_OK(dt_journal_put(j, dt_bytes_of(key), (struct dt_bytes){value.at, value.len}, &err),
                 err);
        dt_buf_finish(&value);
    }
    dt_journal_close(j, NULL, NULL);
    uv_run(&loop, UV_RUN_DEFAULT);
    uv_loop_close(&loop);
}

TEST(who_reads_too_slowly_is_told_how_much_is_missing)
{
    struct node p;
    char dir_of_state[300];
    snprintf(dir_of_state, sizeof dir_of_state, "%s", at("missing"));
    write_events(dir_of_state, 1001, 1002);
    open_at(&st, dir_of_state);
    greet(&p);
    ask(&p, "", 900, false);
    CHECK(strstr(page(&p), "\"last\":1003,\"newest\":1003,\"missed\":100}") != NULL);
    ask(&p, "", 1001, false);
    CHECK(strstr(page(&p), "\"missed\":0}") != NULL);
    ask(&p, "", 0, false); /* who has read nothing misses nothing */
    CHECK(strstr(page(&p), "\"missed\":0}") != NULL);
    node_finish(&p);
    stage_close(&st);
}

TEST(what_is_kept_no_more_leaves_the_journal)
{
    uv_loop_t loop;
    struct dt_err err = {0};
    int records = 0;
    char dir_of_state[300];
    snprintf(dir_of_state, sizeof dir_of_state, "%s", at("full"));
    write_events(dir_of_state, 1, DT_CHRONICLE_MOST + 10);
    open_at(&st, dir_of_state);
    stage_close(&st);
    uv_loop_init(&loop);
    struct dt_journal *j = dt_journal_open(&loop, dir_of_state, on_replay, &records, &err);
    CHECK(j != NULL);
    CHECK_EQ(records, DT_CHRONICLE_MOST);
    dt_journal_close(j, NULL, NULL);
    uv_run(&loop, UV_RUN_DEFAULT);
    uv_loop_close(&loop);
}

TEST(a_page_that_is_full_is_followed_by_another)
{
    struct node p;
    char dir_of_state[300], word[64];
    int64_t last = 0;
    int pages = 0, events = 0;
    snprintf(dir_of_state, sizeof dir_of_state, "%s", at("pages"));
    write_events(dir_of_state, 1, DT_CHRONICLE_MOST - 1);
    open_at(&st, dir_of_state);
    greet(&p);
    while (last < DT_CHRONICLE_MOST) {
        ask(&p, "", last, true);
        const char *all = page(&p);
        snprintf(word, sizeof word, "\"newest\":%d,", DT_CHRONICLE_MOST);
        CHECK(strstr(all, word) != NULL);
        events += count(all, "\"number\":");
        last = strtoll(strstr(all, "\"last\":") + 7, NULL, 10);
        pages++;
    }
    CHECK_EQ(events, DT_CHRONICLE_MOST);
    CHECK(pages > 1);
    node_finish(&p);
    stage_close(&st);
}
