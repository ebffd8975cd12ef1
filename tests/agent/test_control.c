/* SPDX-License-Identifier: Apache-2.0 */
/* A connection to a rendezvous, and whom it meets: fakes on one loop with it, over sockets of
 * loopback. Time passes only where a timeout is the story. */
#include "agent/backend/elastic/control.h"
#include "tests/agent/fake_rendezvous.h"
#include "tests/agent/turning.h"

#define ROWS(a) (sizeof(a) / sizeof *(a))

struct story {
    uv_loop_t loop;
    uv_timer_t tick;
    struct fake_rendezvous fake;
    struct dt_control *control;
    struct dt_control_config config;
    struct dt_token token;
    char at[40];
    /* What was told. */
    int ups, downs, refusals, frames, foreigns, failures;
    char host[20], local[DT_ADDR_TEXT], note[DT_WHY_MAX]; /* of the last NOTE */
    struct dt_err why;
    const char *close_at; /* the event to close from inside of */
    bool closed;
};

static void on_closed(void *arg)
{
    ((struct story *)arg)->closed = true;
}

static void end(struct story *s)
{
    dt_control_close(s->control, on_closed, s);
    s->control = NULL;
}

static void told(struct story *s, const char *event)
{
    CHECK(s->control != NULL); /* nothing comes after a close */
    if (s->close_at && strcmp(s->close_at, event) == 0)
        end(s);
}

static void on_up(void *arg, const char *host, const struct dt_addr *local)
{
    struct story *s = arg;
    s->ups++;
    snprintf(s->host, sizeof s->host, "%s", host);
    dt_addr_text(local, s->local, sizeof s->local);
    told(s, "up");
}

static void on_down(void *arg, const struct dt_err *why)
{
    struct story *s = arg;
    s->downs++;
    s->why = *why;
    told(s, "down");
}

static void on_refused(void *arg, const struct dt_err *why)
{
    struct story *s = arg;
    s->refusals++;
    s->why = *why;
    told(s, "refused");
}

static void on_frame(void *arg, const struct dt_message *m)
{
    struct story *s = arg;
    s->frames++;
    if (m->type == DT_MSG_NOTE)
        snprintf(s->note, sizeof s->note, "%s", m->why);
    told(s, "frame");
}

static void on_foreign(void *arg)
{
    struct story *s = arg;
    s->foreigns++;
    told(s, "foreign");
}

static void on_failed(void *arg, const struct dt_err *why)
{
    struct story *s = arg;
    s->failures++;
    s->why = *why;
    told(s, "failed");
}

static const struct dt_control_events events = {on_up,    on_down,    on_refused,
                                                on_frame, on_foreign, on_failed};

static struct story *story_new(void)
{
    struct story *s = calloc(1, sizeof *s);
    turning_init(&s->loop, &s->tick);
    s->config = DT_CONTROL_CONFIG_DEFAULT;
    s->config.events = &events;
    s->config.arg = s;
    s->config.open_timeout = s->config.attempt_timeout = SOON;
    s->config.backoff_first = s->config.backoff_most = 10;
    snprintf(s->fake.run, sizeof s->fake.run, "train");
    return s;
}

static void connect_to(struct story *s, int port)
{
    struct dt_err err;
    snprintf(s->at, sizeof s->at, "127.0.0.1:%d", port);
    s->config.addr = s->at;
    s->control = dt_control_open(&s->loop, &s->config, &err);
    CHECK(s->control != NULL);
}

/* With a rendezvous there. */
static void begin(struct story *s)
{
    fake_open(&s->fake, &s->loop);
    connect_to(s, s->fake.port);
}

static void story_end(struct story *s)
{
    if (s->control)
        end(s);
    RUN_UNTIL(s, s->closed);
    fake_close(&s->fake);
    uv_close((uv_handle_t *)&s->tick, NULL);
    uv_run(&s->loop, UV_RUN_DEFAULT);
    CHECK_EQ(uv_loop_close(&s->loop), 0);
    free(s);
}

static void know_token(struct story *s, const char *token)
{
    struct dt_err err;
    if (!dt_proof_open(&err))
        SKIP("no libsodium: %s", err.text);
    s->token.len = strlen(token);
    memcpy(s->token.secret, token, s->token.len);
    s->config.token = &s->token;
}

/* A socket of loopback that takes connections when it is asked to. */
static int listen_somewhere(int *port)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof a;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    CHECK_EQ(bind(fd, (struct sockaddr *)&a, len), 0);
    CHECK_EQ(getsockname(fd, (struct sockaddr *)&a, &len), 0);
    CHECK_EQ(listen(fd, 16), 0);
    *port = ntohs(a.sin_port);
    return fd;
}

/* -- what is there ---------------------------------------------------------------------------- */

TEST(a_rendezvous_is_told_by_its_key_and_greeted)
{
    struct story *s = story_new();
    s->fake.host = "agent";
    begin(s);
    CHECK_EQ(s->ups, 0); /* nothing is told from inside a call */
    RUN_UNTIL(s, s->ups);
    CHECK_STR(s->host, "agent");
    CHECK(strncmp(s->local, "127.0.0.1:", 10) == 0);
    CHECK_EQ(dt_store_server_counters(s->fake.store)->accepted, 2);
    CHECK(dt_control_trouble(s->control) == NULL);
    story_end(s);
}

TEST(what_is_known_to_be_ours_is_not_asked_first)
{
    struct story *s = story_new();
    s->config.ours = true;
    begin(s);
    RUN_UNTIL(s, s->ups);
    CHECK_EQ(dt_store_server_counters(s->fake.store)->accepted, 1);
    story_end(s);
}

TEST(a_store_without_our_key_is_foreign)
{
    struct story *s = story_new();
    s->fake.foreign = true;
    begin(s);
    RUN_UNTIL(s, s->foreigns);
    CHECK_EQ(s->ups + s->failures, 0);
    story_end(s);
}

TEST(who_comes_before_the_rendezvous_waits_for_it)
{
    struct story *s = story_new();
    begin(s);
    RUN_UNTIL(s, s->ups);
    int port = s->fake.port;
    fake_close(&s->fake);
    end(s);
    RUN_UNTIL(s, s->closed);
    s->ups = 0;
    s->closed = false;
    connect_to(s, port);
    RUN_UNTIL(s, dt_control_trouble(s->control));
    CHECK(strstr(dt_control_trouble(s->control), "refused"));
    fake_open(&s->fake, &s->loop);
    RUN_UNTIL(s, s->ups);
    story_end(s);
}

TEST(when_nobody_comes_the_wait_ends_with_the_reason)
{
    static const bool ours[] = {false, true};
    for (size_t i = 0; i < ROWS(ours); i++) {
        CHECK_ROW("known to be ours: %d", ours[i]);
        struct story *s = story_new();
        fake_open(&s->fake, &s->loop);
        fake_close(&s->fake);
        s->config.ours = ours[i];
        s->config.open_timeout = 500;
        connect_to(s, s->fake.port);
        RUN_UNTIL(s, s->failures);
        CHECK(strstr(s->why.text, "refused"));
        story_end(s);
    }
}

/* Whose backlog takes connections, and who says nothing. */
TEST(who_says_nothing_is_given_up_in_time)
{
    static const bool ours[] = {false, true};
    for (size_t i = 0; i < ROWS(ours); i++) {
        CHECK_ROW("known to be ours: %d", ours[i]);
        struct story *s = story_new();
        int port, fd = listen_somewhere(&port);
        s->config.ours = ours[i];
        s->config.attempt_timeout = 50;
        s->config.open_timeout = 1000;
        connect_to(s, port);
        RUN_UNTIL(s, s->failures);
        CHECK(strstr(s->why.text, "did not answer in time"));
        close(fd);
        story_end(s);
    }
}

/* -- who is not wanted ------------------------------------------------------------------------ */

TEST(another_version_is_refused)
{
    struct story *s = story_new();
    s->fake.version = 9;
    begin(s);
    RUN_UNTIL(s, s->failures);
    CHECK(strstr(s->why.text, "it is fake and speaks version 9"));
    CHECK_EQ(s->ups, 0);
    story_end(s);
}

TEST(who_is_refused_hears_why_and_does_not_come_again)
{
    struct story *s = story_new();
    s->fake.refusal = "this rendezvous is for others";
    begin(s);
    RUN_UNTIL(s, s->failures);
    CHECK(strstr(s->why.text, "this rendezvous is for others"));
    for (int i = 0; i < 20; i++) /* several pauses */
        turn_once(&s->loop);
    CHECK_EQ(s->fake.connections, 1);
    story_end(s);
}

/* -- tokens ----------------------------------------------------------------------------------- */

TEST(who_knows_the_token_and_is_shown_that_it_is_known_goes_on)
{
    struct story *s = story_new();
    know_token(s, "secret");
    s->fake.token = "secret";
    begin(s);
    RUN_UNTIL(s, s->ups);
    fake_hang_up(&s->fake);
    RUN_UNTIL(s, s->ups == 2); /* proved anew */
    story_end(s);
}

TEST(a_token_must_be_known_on_both_sides)
{
    static const struct {
        const char *ours, *theirs, *words;
    } rows[] = {
        {"secret", "guessed", "does not know the token"},
        {"secret", NULL, "asks for no token"},
        {NULL, "secret", "give the file that holds it with --token-file"},
    };
    for (size_t i = 0; i < ROWS(rows); i++) {
        CHECK_ROW("%s", rows[i].words);
        struct story *s = story_new();
        know_token(s, rows[i].ours ? rows[i].ours : "");
        if (!rows[i].ours)
            s->config.token = NULL;
        s->fake.token = rows[i].theirs;
        begin(s);
        RUN_UNTIL(s, s->failures);
        CHECK(strstr(s->why.text, rows[i].words));
        CHECK_EQ(s->ups, 0);
        story_end(s);
    }
}

/* Whoever has the port while the daemon is away, and the daemon with other options, may say what
 * they like: it is a lost connection until a rendezvous is there that holds to what was agreed. */
TEST(once_it_was_up_no_refusal_is_final)
{
    static const struct {
        const char *ours, *theirs, *refusal;
        int version;
        const char *words;
    } rows[] = {
        {"secret", "guessed", NULL, 0, "does not know the token"},
        {"secret", NULL, NULL, 0, "asks for no token"},
        {"secret", "secret", NULL, 9, "speaks version 9"},
        {"secret", "secret", "go away", 0, "go away"},
        {NULL, "secret", NULL, 0, "give the file that holds it with --token-file"},
        {NULL, NULL, NULL, 9, "speaks version 9"},
        {NULL, NULL, "go away", 0, "go away"},
    };
    for (size_t i = 0; i < ROWS(rows); i++) {
        CHECK_ROW("%zu: %s", i, rows[i].words);
        struct story *s = story_new();
        know_token(s, rows[i].ours ? rows[i].ours : "");
        if (!rows[i].ours)
            s->config.token = NULL;
        s->fake.token = rows[i].ours;
        begin(s);
        RUN_UNTIL(s, s->ups);
        s->fake.token = rows[i].theirs;
        s->fake.refusal = rows[i].refusal;
        s->fake.version = rows[i].version;
        fake_hang_up(&s->fake);
        RUN_UNTIL(s, s->refusals == 3);
        CHECK(strstr(s->why.text, rows[i].words));
        CHECK(strstr(dt_control_trouble(s->control), rows[i].words));
        s->fake.token = rows[i].ours;
        s->fake.refusal = NULL;
        s->fake.version = 0;
        RUN_UNTIL(s, s->ups == 2);
        CHECK_EQ(s->failures, 0);
        story_end(s);
    }
}

TEST(a_refusal_on_a_connection_that_is_up_is_a_lost_connection)
{
    struct story *s = story_new();
    begin(s);
    RUN_UNTIL(s, s->ups);
    FAKE_SAY(&s->fake, .type = DT_MSG_REFUSED, .why = "one too many");
    RUN_UNTIL(s, s->refusals);
    CHECK_STR(s->why.text, "one too many");
    RUN_UNTIL(s, s->ups == 2);
    CHECK_EQ(s->downs + s->failures, 0);
    story_end(s);
}

/* -- while it is up --------------------------------------------------------------------------- */

TEST(frames_go_both_ways)
{
    struct story *s = story_new();
    begin(s);
    RUN_UNTIL(s, s->ups);
    dt_control_say(
        s->control,
        &(struct dt_message){
            .type = DT_MSG_LEAVE, .run = "train", .round = -1, .incarnation = 1, .why = "enough"});
    RUN_UNTIL(s, *s->fake.heard);
    CHECK_STR(fake_heard(&s->fake), "LEAVE enough");
    FAKE_SAY(&s->fake, .type = DT_MSG_NOTE, .why = "one");
    FAKE_SAY(&s->fake, .type = DT_MSG_NOTE, .why = "two"); /* in one piece with the first */
    RUN_UNTIL(s, s->frames == 2);
    CHECK_STR(s->note, "two");
    story_end(s);
}

TEST(a_connection_that_is_lost_is_made_again_without_a_second_question)
{
    struct story *s = story_new();
    begin(s);
    RUN_UNTIL(s, s->ups);
    fake_hang_up(&s->fake);
    RUN_UNTIL(s, s->downs);
    CHECK(dt_control_trouble(s->control) != NULL);
    dt_control_say(s->control, &(struct dt_message){.type = DT_MSG_LEAVE, .run = "", .why = ""});
    RUN_UNTIL(s, s->ups == 2);
    CHECK_EQ(s->fake.connections, 2);
    CHECK_EQ(dt_store_server_counters(s->fake.store)->accepted, 3);
    CHECK_STR(fake_heard(&s->fake), ""); /* what was said meanwhile is lost */
    story_end(s);
}

TEST(a_rendezvous_that_is_away_is_waited_for_as_long_as_it_takes)
{
    struct story *s = story_new();
    s->config.open_timeout = 1000; /* counts only the first time */
    begin(s);
    RUN_UNTIL(s, s->ups);
    fake_close(&s->fake);
    RUN_UNTIL(s, s->downs);
    uint64_t end_at = uv_now(&s->loop) + 1200;
    RUN_UNTIL(s, uv_now(&s->loop) > end_at);
    fake_open(&s->fake, &s->loop);
    RUN_UNTIL(s, s->ups == 2);
    CHECK_EQ(s->failures, 0);
    CHECK_EQ(s->downs, 1);
    story_end(s);
}

TEST(nonsense_ends_the_connection)
{
    struct story *s = story_new();
    begin(s);
    RUN_UNTIL(s, s->ups);
    dt_buf_put_str(s->fake.peer->out, "\xff\xff\xff\xff");
    dt_control_peer_send(s->fake.peer);
    RUN_UNTIL(s, s->downs);
    CHECK(strstr(s->why.text, "does not speak as a rendezvous does"));
    RUN_UNTIL(s, s->ups == 2);
    story_end(s);
}

/* Whoever lives is to be back before a rendezvous takes it for dead; but one that takes each
 * connection and ends it in that moment must not be met with a storm. */
TEST(a_connection_that_lasted_is_made_again_at_once)
{
    for (int i = 0; i < 2; i++) {
        CHECK_ROW("%s", i ? "it was short" : "it lasted");
        struct story *s = story_new();
        s->config.lasted = i ? SOON : 0;
        s->config.backoff_first = s->config.backoff_most = i ? 10 : DT_FOREVER;
        begin(s);
        RUN_UNTIL(s, s->ups);
        fake_hang_up(&s->fake);
        RUN_UNTIL(s, s->ups == 2);
        story_end(s);
    }
}

TEST(a_connection_that_is_dropped_is_made_again_and_no_word_about_it)
{
    struct story *s = story_new();
    begin(s);
    RUN_UNTIL(s, s->ups);
    dt_control_drop(s->control, "nothing was heard");
    CHECK_STR(dt_control_trouble(s->control), "nothing was heard");
    RUN_UNTIL(s, s->ups == 2);
    CHECK_EQ(s->downs, 0);
    story_end(s);
}

/* One that greets, and then reads nothing. */
TEST(who_does_not_take_what_it_is_told_is_given_up)
{
    struct story *s = story_new();
    struct dt_message hello = {.type = DT_MSG_HELLO,
                               .hello = {.version = DT_CONTROL_VERSION, .program = "stuck"}};
    struct dt_buf out = {0};
    int port, peer = -1, fd = listen_somewhere(&port);
    s->config.ours = true;
    connect_to(s, port);
    RUN_UNTIL(s, (peer = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0);
    hello.hello.host = "daemon";
    dt_message_encode(&out, &hello);
    CHECK_EQ(write(peer, out.at, out.len), out.len);
    dt_buf_finish(&out);
    RUN_UNTIL(s, s->ups);
    struct dt_message m = {.type = DT_MSG_LEAVE, .run = "train", .round = -1, .why = "again"};
    while (s->downs == 0) {
        dt_control_say(s->control, &m);
        if (s->downs == 0)
            uv_run(&s->loop, UV_RUN_NOWAIT);
    }
    CHECK(strstr(s->why.text, "does not take what it is told"));
    close(peer);
    close(fd);
    story_end(s);
}

/* -- ends ------------------------------------------------------------------------------------- */

TEST(it_may_be_closed_from_inside_any_event)
{
    static const char *const all[] = {"up", "down", "frame", "foreign", "failed"};
    for (size_t i = 0; i < ROWS(all); i++) {
        CHECK_ROW("%s", all[i]);
        struct story *s = story_new();
        s->close_at = all[i];
        s->fake.foreign = strcmp(all[i], "foreign") == 0;
        s->fake.version = strcmp(all[i], "failed") == 0 ? 9 : 0;
        begin(s);
        RUN_UNTIL(s, !s->control || s->ups);
        if (s->ups && strcmp(all[i], "frame") == 0)
            FAKE_SAY(&s->fake, .type = DT_MSG_NOTE);
        else if (s->ups && strcmp(all[i], "down") == 0)
            fake_hang_up(&s->fake);
        RUN_UNTIL(s, s->closed);
        CHECK(s->control == NULL);
        story_end(s);
    }
}

TEST(it_may_be_closed_at_any_moment)
{
    for (int turns = 0; turns < 12; turns++) {
        CHECK_ROW("after %d turns of the loop", turns);
        struct story *s = story_new();
        begin(s);
        for (int i = 0; i < turns; i++)
            turn_once(&s->loop);
        end(s);
        RUN_UNTIL(s, s->closed);
        story_end(s);
    }
}
