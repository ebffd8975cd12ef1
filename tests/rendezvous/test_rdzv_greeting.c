/* SPDX-License-Identifier: Apache-2.0 */
/* Who is let into the rendezvous behind a store's port, and who is told why not. */
#include "tests/rendezvous/rdzv_stage.h"

#include <sys/wait.h>

#define SECRET "a secret of forty-two bytes, or nearly so."

/* -- the greeting ----------------------------------------------------------------------------- */

static void send_preamble(struct node *n, uint16_t port, int version)
{
    uint8_t bytes[] = {'D', 'T', 'R', 'N', (uint8_t)version, (uint8_t)(version >> 8)};
    n->fd = peer_connect(port);
    peer_send(n->fd, bytes, sizeof bytes);
}

static void check_refused(struct node *n, const char *words)
{
    node_hear(n, DT_MSG_REFUSED);
    CHECK_ROW("%s", n->heard.why);
    CHECK(strstr(n->heard.why, words) != NULL);
    node_expect_end(n);
    node_finish(n);
}

TEST(a_greeting_both_ways)
{
    struct stage st;
    stage_open(&st, &usual);
    struct node n = node_of("run", "node0", 1, 1);
    node_greet(&n, st.serving.port);
    CHECK_EQ(n.heard.hello.version, DT_CONTROL_VERSION);
    CHECK_STR(n.heard.hello.host, "daemon");
    CHECK(!n.heard.hello.token);
    node_finish(&n);
    stage_close(&st);
}

TEST(another_version_is_told_what_is_spoken_here)
{
    struct stage st;
    stage_open(&st, &usual);
    struct node n = node_of("run", "node0", 1, 1);
    send_preamble(&n, st.serving.port, 513);
    check_refused(&n, "version 513");
    CHECK_EQ(counters(&st)->refused, 1);
    stage_close(&st);
}

TEST(what_is_no_frame_is_refused_and_others_are_not)
{
    static const struct {
        const char *bytes;
        size_t len;
        const char *words;
    } rows[] = {
        {"\xff\xff\xff\xff", 4, "4294967295 bytes"}, {"\x01\x00\x01\x00", 4, "65537 bytes"},
        {"\x04\0\0\0\xde\xad\xbe\xef", 8, ""},       {"\x02\0\0\0{}", 6, "type"},
        {"\x0f\0\0\0{\"type\":\"beat\"}", 19, ""},   {"\x0f\0\0\0{\"type\":\"soap\"}", 19, "soap"},
    };
    struct stage st;
    stage_open(&st, &usual);
    struct node good = node_of("run", "node0", 1, 2);
    node_enter(&good, st.serving.port);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("row %zu", i);
        struct node n = node_of("run", "node1", 2, 1);
        node_greet(&n, st.serving.port);
        peer_send(n.fd, rows[i].bytes, rows[i].len);
        check_refused(&n, rows[i].words);
        n = node_of("run", "node1", 2, 1); /* and in place of the greeting */
        send_preamble(&n, st.serving.port, DT_CONTROL_VERSION);
        node_hear(&n, DT_MSG_HELLO);
        peer_send(n.fd, rows[i].bytes, rows[i].len);
        check_refused(&n, rows[i].words);
    }
    node_beat(&good);
    node_finish(&good);
    stage_close(&st);
}

TEST(a_frame_out_of_place_is_refused)
{
    struct stage st;
    stage_open(&st, &usual);
    struct node n = node_of("run", "node0", 1, 1);
    send_preamble(&n, st.serving.port, DT_CONTROL_VERSION);
    node_hear(&n, DT_MSG_HELLO);
    node_join(&n);
    check_refused(&n, "no hello");
    n = node_of("run", "node0", 1, 1);
    node_greet(&n, st.serving.port);
    struct dt_message stop = node_message(&n, DT_MSG_STOP);
    stop.why = "";
    node_send(&n, &stop);
    check_refused(&n, "stop");
    n = node_of("run", "node0", 1, 2);
    node_enter(&n, st.serving.port);
    n.incarnation = 2;
    struct dt_message beat = node_message(&n, DT_MSG_BEAT);
    node_send(&n, &beat);
    check_refused(&n, "did not join");
    stage_close(&st);
}

TEST(byte_by_byte_is_as_good)
{
    struct stage st;
    stage_open(&st, &usual);
    struct node n = node_of("run", "node0", 1, 2);
    struct dt_message hello = {.type = DT_MSG_HELLO, .hello = {.version = 1, .program = "slow"}};
    struct dt_message beat = node_message(&n, DT_MSG_BEAT);
    struct dt_buf out = {0};
    dt_control_put_preamble(&out);
    dt_message_encode(&out, &hello);
    n.fd = peer_connect(st.serving.port);
    for (size_t i = 0; i < out.len; i++)
        peer_send(n.fd, out.at + i, 1);
    node_hear(&n, DT_MSG_HELLO);
    node_join(&n);
    dt_buf_clear(&out);
    dt_message_encode(&out, &beat);
    for (size_t i = 0; i < out.len; i++)
        peer_send(n.fd, out.at + i, 1);
    node_hear(&n, DT_MSG_BEAT);
    dt_buf_finish(&out);
    node_finish(&n);
    stage_close(&st);
}

TEST(who_does_not_greet_in_time_is_sent_away)
{
    struct dt_rdzv_server_config config = usual;
    struct stage st;
    config.patience = DT_SECOND;
    stage_open(&st, &config);
    struct node silent = node_of("run", "node0", 1, 1), idle = silent, member = silent;
    member.spec.min_nodes = member.spec.max_nodes = 2;
    node_enter(&member, st.serving.port);
    send_preamble(&silent, st.serving.port, DT_CONTROL_VERSION);
    node_hear(&silent, DT_MSG_HELLO);
    check_refused(&silent, "did not greet");
    node_greet(&idle, st.serving.port); /* has no part in any run */
    node_expect_end(&idle);
    node_finish(&idle);
    node_beat(&member); /* has one, and may be silent */
    node_finish(&member);
    stage_close(&st);
}

/* -- tokens ----------------------------------------------------------------------------------- */

static void open_with_token(struct stage *st)
{
    struct dt_rdzv_server_config config = usual;
    struct dt_err err;
    if (!dt_proof_open(&err))
        SKIP("%s", err.text);
    config.token = SECRET;
    config.token_len = strlen(SECRET);
    stage_open(st, &config);
}

TEST(the_right_token_is_answered_with_a_proof)
{
    struct stage st;
    open_with_token(&st);
    struct node n = node_of("run", "node0", 1, 2);
    n.token = SECRET;
    node_greet(&n, st.serving.port);
    node_hear(&n, DT_MSG_PROOF);
    node_join(&n);
    node_beat(&n);
    node_finish(&n);
    stage_close(&st);
}

TEST(a_wrong_token_and_none_are_refused)
{
    struct stage st;
    open_with_token(&st);
    struct node n = node_of("run", "node0", 1, 2);
    n.token = "another secret";
    node_greet(&n, st.serving.port);
    check_refused(&n, "not that of this server");
    n = node_of("run", "node0", 1, 2);
    node_greet(&n, st.serving.port);
    node_join(&n);
    check_refused(&n, "--token-file");
    CHECK_EQ(counters(&st)->nodes, 0);
    CHECK_EQ(counters(&st)->refused, 2);
    stage_close(&st);
}

/* Greets with TOKEN; false: the connection is closed without a word. */
static bool is_answered(struct stage *st, struct node *n, const char *token)
{
    char byte;
    *n = node_of("run", "node0", 1, 2);
    n->token = token;
    node_greet(n, st->serving.port);
    return recv(n->fd, &byte, 1, MSG_PEEK) == 1;
}

TEST(who_guesses_much_is_not_listened_to_for_a_while)
{
    struct stage st;
    struct node n;
    int guesses = 0;
    open_with_token(&st);
    while (is_answered(&st, &n, "a guess")) { /* one more each second: none on a fast machine */
        check_refused(&n, "not that of this server");
        CHECK(++guesses < 1000);
    }
    CHECK(guesses >= 10);
    node_finish(&n);
    while (!is_answered(&st, &n, SECRET))
        node_finish(&n);
    node_hear(&n, DT_MSG_PROOF);
    node_finish(&n);
    CHECK(is_answered(&st, &n, "a guess")); /* the right one has made up for those before */
    node_finish(&n);
    stage_close(&st);
}

/* -- tokens of runs --------------------------------------------------------------------------- */

#define RUN_SECRET "a secret of this run alone"
#define OPERATOR_SECRET "a secret of the operator"

static void open_with_operator(struct stage *st, struct dt_token *token)
{
    struct dt_rdzv_server_config config = usual;
    struct dt_err err;
    if (!dt_proof_open(&err))
        SKIP("%s", err.text);
    token->len = strlen(OPERATOR_SECRET);
    memcpy(token->secret, OPERATOR_SECRET, token->len);
    config.operator_token = token;
    stage_open(st, &config);
}

TEST(a_key_is_proved_on_each_connection)
{
    struct stage st;
    struct dt_token token;
    open_with_operator(&st, &token);
    struct node n = node_of("run", "node0", 1, 2), other = node_of("run", "node1", 2, 2);
    n.run_token = RUN_SECRET;
    node_enter(&n, st.serving.port);
    node_beat(&n);
    node_join(&n); /* again, and the same */
    node_beat(&n);
    node_enter(&other, st.serving.port);
    CHECK_EQ(node_hear(&other, DT_MSG_CLOSE)->close.kind, DT_CLOSE_REFUSED);
    CHECK(strstr(other.heard.why, "has a token of its own, and node1 has none"));
    node_finish(&other);
    other = node_of("run", "node1", 2, 2);
    other.run_token = RUN_SECRET;
    node_greet(&other, st.serving.port);
    other.nonces = n.nonces; /* as if it had overheard the signature of the first */
    other.nonces.server[0] ^= 1;
    node_join(&other);
    check_refused(&other, "a key whose signature does not hold");
    other = node_of("run", "node1", 2, 2);
    other.run_token = RUN_SECRET;
    node_enter(&other, st.serving.port);
    node_run(&n);
    node_run(&other);
    node_finish(&n);
    node_finish(&other);
    stage_close(&st);
}

TEST(a_connection_has_one_key_and_it_is_one)
{
    struct stage st;
    struct dt_token token;
    open_with_operator(&st, &token);
    struct node n = node_of("run", "node0", 1, 2);
    n.run_token = RUN_SECRET;
    node_enter(&n, st.serving.port);
    node_beat(&n);
    n.run_token = "another secret of that size";
    node_join(&n);
    check_refused(&n, "a second key on one connection");
    n = node_of("run", "node0", 1, 2);
    node_greet(&n, st.serving.port);
    struct dt_message m = {
        .type = DT_MSG_PAUSE, .run = "run", .key = "\x1b[2J", .signature = "zz", .why = ""};
    node_send(&n, &m);
    check_refused(&n, "does not hold");
    stage_close(&st);
}

/* What becomes of a wish of bob's, who shows the key of SECRET for RUN (NULL: the operator's). */
static bool is_done(struct stage *st, struct dt_message m, const char *secret, const char *run)
{
    struct node n = node_of("run", "bob", 9, 1);
    node_greet(&n, st->serving.port);
    m.user = "bob";
    if (secret)
        node_send_signed(&n, &m, secret, run);
    else
        node_send(&n, &m);
    node_hear(&n, m.type);
    bool done = m.type == DT_MSG_DRAIN ? n.heard.drain.done : n.heard.wish.done;
    node_finish(&n);
    return done;
}

/* By the loopback address the kernel would say that it is we who ask: there is no stranger here but
 * in another child. So this is about the keys that another process shows. */
static void ask_as_strangers(struct stage *st)
{
    const struct dt_message pause = {.type = DT_MSG_PAUSE, .run = "run", .why = ""},
                            drain = {
                                .type = DT_MSG_DRAIN, .run = "", .drain.node = "node0", .why = ""};
    CHECK(!is_done(st, pause, NULL, NULL));
    CHECK(!is_done(st, pause, "a guess", "run"));
    CHECK(!is_done(st, pause, RUN_SECRET, "another run"));
    CHECK(is_done(st, pause, RUN_SECRET, "run"));
    CHECK(is_done(st, pause, OPERATOR_SECRET, NULL));
    CHECK(!is_done(st, drain, NULL, NULL));
    CHECK(!is_done(st, drain, RUN_SECRET, "run"));
    CHECK(!is_done(st, drain, OPERATOR_SECRET, "run"));
    CHECK(is_done(st, drain, OPERATOR_SECRET, NULL));
}

#define NOBODY 65534

TEST(strangers_of_this_host_need_the_token_of_what_they_wish_for)
{
    struct stage st;
    struct dt_token token;
    int status = 0;
    if (geteuid() != 0)
        SKIP("only root can become somebody else");
    open_with_operator(&st, &token);
    struct node n = node_of("run", "node0", 1, 2);
    n.run_token = RUN_SECRET;
    node_enter(&n, st.serving.port);
    node_beat(&n);
    pid_t pid = fork();
    if (pid == 0) {
        if (setgid(NOBODY) < 0 || setuid(NOBODY) < 0)
            _exit(2);
        ask_as_strangers(&st);
        _exit(0);
    }
    CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
    CHECK_EQ(status, 0);
    CHECK(is_done(&st, (struct dt_message){.type = DT_MSG_PAUSE, .run = "run", .why = ""}, NULL,
                  NULL));
    node_finish(&n);
    stage_close(&st);
}
