/* SPDX-License-Identifier: Apache-2.0 */
/* A person's side of the control protocol, against a stand-in that greets and answers as each story
 * wants it. */
#include "rendezvous/protocol/sync_control.h"
#include "tests/lib/scripted.h"

#define SOON (20 * DT_SECOND) /* never reached unless something is broken */
#define COUNT(a) (sizeof(a) / sizeof *(a))

static struct dt_token token_of(const char *secret)
{
    struct dt_token t = {.len = strlen(secret)};
    memcpy(t.secret, secret, t.len);
    return t;
}

static void need_sodium(void)
{
#ifndef DT_WITH_SODIUM
    SKIP("built without libsodium");
#endif
}

/* Greets S, which is to be the end of it. */
static void check_no_greeting(struct scripted *s, const char *secret, const char *words)
{
    struct dt_token token = token_of(secret ? secret : "");
    struct dt_err err = {0};
    scripted_start(s);
    struct dt_sync_control *c =
        dt_sync_control_open(s->addr, "a test", secret ? &token : NULL, SOON, &err);
    CHECK_FAIL(c ? 0 : -1, err, words);
    CHECK(strstr(err.text, s->addr) != NULL);
    scripted_stop(s);
    dt_buf_finish(&s->asked);
}

static struct dt_sync_control *opened(const struct scripted *s, const struct dt_token *token)
{
    struct dt_err err = {0};
    struct dt_sync_control *c = dt_sync_control_open(s->addr, "a test", token, SOON, &err);
    CHECK_OK(c ? 0 : -1, err);
    return c;
}

static void check_drained(struct dt_sync_control *c)
{
    struct dt_message request = {.type = DT_MSG_DRAIN, .drain.node = "node7"}, answer;
    struct dt_err err = {0};
    CHECK_OK(dt_sync_control_ask(c, &request, &answer, &err), err);
    CHECK(answer.drain.done);
    CHECK_STR(answer.why, "it is out");
    dt_message_finish(&answer);
}

static const char drained[] = "{\"type\":\"drain\",\"done\":true,\"why\":\"it is out\"}";

TEST(a_request_is_answered)
{
    struct scripted s = {.answers = (const char *const[]){drained, drained, NULL}};
    scripted_start(&s);
    struct dt_sync_control *c = opened(&s, NULL);
    check_drained(c);
    check_drained(c);
    dt_sync_control_close(c);
    scripted_stop(&s);
    CHECK(strstr(dt_buf_cstr(&s.asked), "\"program\":\"a test\"") != NULL);
    CHECK(strstr(dt_buf_cstr(&s.asked), "{\"type\":\"drain\",\"node\":\"node7\"}\n") != NULL);
    dt_buf_finish(&s.asked);
}

TEST(both_sides_prove_the_token)
{
    need_sodium();
    struct scripted s = {.token = "sesame", .answers = (const char *const[]){drained, NULL}};
    struct dt_token token = token_of("sesame");
    scripted_start(&s);
    struct dt_sync_control *c = opened(&s, &token);
    check_drained(c);
    dt_sync_control_close(c);
    scripted_stop(&s);
    CHECK(strstr(dt_buf_cstr(&s.asked), "sesame") == NULL);
    dt_buf_finish(&s.asked);
}

TEST(another_token_is_refused_and_the_reason_is_passed_on)
{
    need_sodium();
    struct scripted s = {.token = "sesame"};
    check_no_greeting(&s, "open", "it refused: that is another token");
}

TEST(a_server_that_does_not_know_the_token_is_not_believed)
{
    need_sodium();
    struct scripted s = {.token = "sesame", .knows_no_token = true};
    check_no_greeting(&s, "sesame", "it does not know the token itself");
}

TEST(a_server_that_does_not_look_at_the_token_may_do_so_in_a_while)
{
    need_sodium();
    struct scripted s = {.token = "sesame", .is_guessed_at = true};
    check_no_greeting(&s, "sesame",
                      "no answer to the token: the server closed the connection; after ten wrong "
                      "tokens from one address");
}

TEST(a_server_that_asks_for_no_token_is_not_told_anything_by_who_has_one)
{
    struct scripted s = {0};
    check_no_greeting(&s, "sesame", "it asks for no token, though one is given");
}

TEST(a_token_that_is_asked_for_must_be_given)
{
    struct scripted s = {.token = "sesame"};
    check_no_greeting(&s, NULL, "it asks for a token; give --token-file");
}

TEST(another_version_is_named)
{
    struct scripted s = {.version = 2};
    check_no_greeting(&s, NULL,
                      "it speaks version 2 of the control protocol and this program version 1");
}

TEST(a_refusal_is_passed_on_without_what_a_terminal_would_obey)
{
    static const char refused[] = "\x2c\0\0\0{\"type\":\"refused\",\"why\":\"go \\u001b[31maway\"}";
    struct scripted s = {.raw = refused, .raw_len = sizeof refused - 1};
    check_no_greeting(&s, NULL, "it refused: go \\x1b[31maway");
}

TEST(a_refusal_may_come_where_an_answer_was_due)
{
    struct scripted s = {.refusal = "too many of you"};
    struct dt_message request = {.type = DT_MSG_STATUS}, answer;
    struct dt_err err = {0};
    scripted_start(&s);
    struct dt_sync_control *c = opened(&s, NULL);
    CHECK_FAIL(dt_sync_control_ask(c, &request, &answer, &err), err, "it refused: too many of you");
    dt_sync_control_close(c);
    scripted_stop(&s);
    dt_buf_finish(&s.asked);
}

TEST(what_is_no_rendezvous_is_called_so)
{
    static const struct {
        const char *raw;
        size_t len;
        const char *words;
    } rows[] = {
        {"", 0, "the server closed the connection; is it dtrun's rendezvous that serves there?"},
        {"\1\0\0", 3, "the server closed the connection; is it dtrun's rendezvous"},
        {"HTTP/1.1 400 Bad Request\r\n", 26, "a message of 1347703880 bytes; at most 1048576"},
        {"\2\0\0\0{}", 6, "did not answer as a rendezvous of dtrun does: the document: \"type\""},
        {"\3\0\0\0{}}", 7, "something follows the JSON"},
        {"\x10\0\0\0{\"type\":\"proof\"}", 20, "it did not answer as a rendezvous"},
        {"\x12\0\0\0{\"type\":\"refused\"}", 22, "it refused: "},
        {"\x10\0\0\0{\"type\":\"drain\"}", 20,
         "it answered with \"drain\" where \"hello\" was due"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        CHECK_ROW("row %zu: %s", i, rows[i].words);
        struct scripted s = {.raw = rows[i].raw, .raw_len = rows[i].len};
        check_no_greeting(&s, NULL, rows[i].words);
    }
}

TEST(a_server_that_goes_instead_of_answering_is_told_of)
{
    struct scripted s = {.answers = (const char *const[]){drained, NULL}};
    struct dt_message request = {.type = DT_MSG_DRAIN, .drain.node = "node7"}, answer;
    struct dt_err err = {0};
    scripted_start(&s);
    struct dt_sync_control *c = opened(&s, NULL);
    check_drained(c);
    CHECK_FAIL(dt_sync_control_ask(c, &request, &answer, &err), err, "connection");
    CHECK_EQ(err.code, DT_E_DISCONNECTED);
    dt_sync_control_close(c);
    scripted_stop(&s);
    dt_buf_finish(&s.asked);
}

TEST(an_answer_to_something_else_is_none)
{
    struct scripted s = {.answers = (const char *const[]){"{\"type\":\"status\"}", NULL}};
    struct dt_message request = {.type = DT_MSG_DRAIN, .drain.node = "node7"}, answer;
    struct dt_err err = {0};
    scripted_start(&s);
    struct dt_sync_control *c = opened(&s, NULL);
    CHECK_FAIL(dt_sync_control_ask(c, &request, &answer, &err), err,
               "it answered with \"status\" where \"drain\" was due");
    dt_sync_control_close(c);
    scripted_stop(&s);
    dt_buf_finish(&s.asked);
}

TEST(nobody_there_is_said_with_the_address)
{
    struct dt_err err = {0};
    /* A port of loopback that is bound, but not listened at. */
    struct dt_addr a;
    char addr[DT_ADDR_TEXT];
    CHECK_OK(dt_addr_parse("127.0.0.1:0", 0, &a, &err), err);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK_EQ(bind(fd, (struct sockaddr *)&a.sa, a.len), 0);
    CHECK_EQ(getsockname(fd, (struct sockaddr *)&a.sa, &a.len), 0);
    dt_addr_text(&a, addr, sizeof addr);
    struct dt_sync_control *c = dt_sync_control_open(addr, "a test", NULL, SOON, &err);
    CHECK_FAIL(c ? 0 : -1, err, "cannot connect: Connection refused");
    CHECK(strstr(err.text, addr) != NULL);
    close(fd);
}

/* As behind a firewall: the kernel answers to no more than it may keep for a program that takes
 * none. */
TEST(where_nothing_answers_a_firewall_is_thought_of)
{
    struct dt_addr a;
    struct dt_err err = {0};
    char addr[DT_ADDR_TEXT];
    int held[8];
    CHECK_OK(dt_addr_parse("127.0.0.1:0", 0, &a, &err), err);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK_EQ(bind(fd, (struct sockaddr *)&a.sa, a.len), 0);
    CHECK_EQ(listen(fd, 0), 0);
    CHECK_EQ(getsockname(fd, (struct sockaddr *)&a.sa, &a.len), 0);
    for (int i = 0; i < 8; i++) {
        held[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        connect(held[i], (struct sockaddr *)&a.sa, a.len);
    }
    dt_addr_text(&a, addr, sizeof addr);
    struct dt_sync_control *c = dt_sync_control_open(addr, "a test", NULL, 300, &err);
    CHECK_FAIL(c ? 0 : -1, err, "nothing answers: perhaps a firewall drops what is sent there");
    CHECK_EQ(err.code, DT_E_TIMEOUT);
    for (int i = 0; i < 8; i++)
        close(held[i]);
    close(fd);
}

TEST(silence_ends_with_the_time_that_was_given)
{
    struct dt_addr a;
    struct dt_err err = {0};
    char addr[DT_ADDR_TEXT];
    CHECK_OK(dt_addr_parse("127.0.0.1:0", 0, &a, &err), err);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK_EQ(bind(fd, (struct sockaddr *)&a.sa, a.len), 0);
    CHECK_EQ(listen(fd, 1), 0); /* the kernel takes the connection, and nobody else does */
    CHECK_EQ(getsockname(fd, (struct sockaddr *)&a.sa, &a.len), 0);
    dt_addr_text(&a, addr, sizeof addr);
    struct dt_sync_control *c = dt_sync_control_open(addr, "a test", NULL, 500, &err);
    CHECK_FAIL(c ? 0 : -1, err,
               "no answer to the greeting: timed out; is it dtrun's rendezvous that serves there? "
               "One whose --max-connections are all taken answers");
    CHECK_EQ(err.code, DT_E_TIMEOUT);
    close(fd);
}
