/* SPDX-License-Identifier: Apache-2.0 */
/* The wire over TCP against those who do not keep to its rules: strangers at the door, impostors,
 * peers that send too much. Both ends are of this process and moved in turns. */
#include "tests/lib/check.h"
#include "worker_runtime/coll/wire/tcp/inside.h"
#include "worker_runtime/coll/wire/tcp/tcp.h"

#include <arpa/inet.h>
#include <errno.h>
#include <malloc.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#define MAGIC DT_TCP_MAGIC
#define MIB ((size_t)1 << 20)

static const struct dt_wire_ops *const ops = &dt_wire_tcp;

struct pair {
    struct dt_wire *w[2]; /* ranks 0 and 1 */
    uint8_t card[2][DT_WIRE_ADDRESS_MAX];
};

static struct pair open_pair(void)
{
    struct pair p;
    struct dt_err err = {0};
    size_t len;
    for (int r = 0; r < 2; r++) {
        p.w[r] = ops->open(r, &err);
        CHECK_OK(p.w[r] ? 0 : -1, err);
        CHECK_OK(ops->address(p.w[r], p.card[r], &len, &err), err);
        CHECK_EQ(len, DT_TCP_CARD);
    }
    return p;
}

static void connect_both(struct pair *p)
{
    struct dt_err err = {0};
    for (int r = 0; r < 2; r++)
        CHECK_OK(ops->connect(p->w[r], 1 - r, p->card[1 - r], DT_TCP_CARD, &err), err);
}

static void move(struct pair *p)
{
    struct pollfd f[2] = {{.fd = ops->wait_fd(p->w[0]), .events = POLLIN},
                          {.fd = ops->wait_fd(p->w[1]), .events = POLLIN}};
    poll(f, 2, 20);
    ops->progress(p->w[0]);
    ops->progress(p->w[1]);
}

static void finish(struct pair *p, int rank, struct dt_wire_request *r)
{
    struct dt_err err = {0};
    int rc;
    while ((rc = ops->test(p->w[rank], r, &err)) == 0)
        move(p);
    CHECK_OK(rc < 0 ? -1 : 0, err);
}

/* A number goes from 0 to 1, and another back. */
static void check_talk(struct pair *p, uint64_t number)
{
    for (int from = 0; from < 2; from++) {
        uint64_t out = number + (uint64_t)from, in = 0;
        struct dt_wire_request *s, *r;
        struct dt_err err = {0};
        CHECK_OK(ops->send(p->w[from], 1 - from, 7, &out, sizeof out, &s, &err), err);
        CHECK_OK(ops->recv(p->w[1 - from], from, 7, &in, sizeof in, &r, &err), err);
        finish(p, 1 - from, r);
        finish(p, from, s);
        CHECK_EQ(in, out);
    }
}

static void close_pair(struct pair *p)
{
    ops->close(p->w[0]);
    ops->close(p->w[1]);
}

static int dial(const uint8_t *bytes, struct dt_tcp_card *card)
{
    struct dt_err err = {0};
    CHECK_OK(dt_tcp_card_read(card, bytes, DT_TCP_CARD, &err), err);
    int fd = socket(card->at.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK_EQ(connect(fd, (struct sockaddr *)&card->at, card->len), 0);
    return fd;
}

/* Moves the pair until the other end of FD has closed it; how many bytes came before. */
static size_t await_end(struct pair *p, int fd)
{
    size_t all = 0;
    char some[256];
    for (;;) {
        ssize_t n = recv(fd, some, sizeof some, MSG_DONTWAIT);
        if (n == 0 || (n < 0 && errno != EAGAIN))
            break;
        all += n > 0 ? (size_t)n : 0;
        move(p);
    }
    close(fd);
    return all;
}

static const struct stranger {
    const char *what;
    bool knows; /* the knock */
    uint32_t magic, from, to, line;
} strangers[] = {
    {"does not know the knock", false, MAGIC, 0, 1, DT_TCP_MESSAGES},
    {"speaks another protocol", true, 0x20544547, 0, 1, DT_TCP_MESSAGES},
    {"wants another rank", true, MAGIC, 0, 2, DT_TCP_MESSAGES},
    {"says it is us", true, MAGIC, 1, 1, DT_TCP_MESSAGES},
    {"is of a rank that we call", true, MAGIC, 2, 1, DT_TCP_MESSAGES},
    {"is of a rank that calls us and wants the pulse", true, MAGIC, 0, 1, DT_TCP_PULSE},
    {"wants a line that there is not", true, MAGIC, 0, 1, 2},
    {"is of a rank beyond all", true, MAGIC, 1u << 31, 1, DT_TCP_PULSE},
};

TEST(strangers_are_sent_off_and_disturb_nobody)
{
    struct pair p = open_pair();
    for (size_t i = 0; i < sizeof strangers / sizeof *strangers; i++) {
        const struct stranger *s = &strangers[i];
        struct dt_tcp_card card;
        CHECK_ROW("who %s", s->what);
        int fd = dial(p.card[1], &card);
        struct dt_tcp_hello h = {s->magic, s->from, s->to, s->line, {0}};
        if (s->knows)
            memcpy(h.secret, card.secrets.knock, sizeof h.secret);
        CHECK_EQ(send(fd, &h, sizeof h, MSG_NOSIGNAL), sizeof h);
        CHECK_EQ(await_end(&p, fd), 0);
    }
    connect_both(&p);
    check_talk(&p, 11);
    close_pair(&p);
}

TEST(a_second_connection_of_one_rank_is_refused)
{
    struct pair p = open_pair();
    struct dt_tcp_card card;
    connect_both(&p);
    check_talk(&p, 1);
    for (uint32_t i = 0; i < 3; i++) {
        int fd = dial(p.card[1], &card);
        struct dt_tcp_hello h = {MAGIC, 0, 1, DT_TCP_MESSAGES, {0}};
        memcpy(h.secret, card.secrets.knock, sizeof h.secret);
        CHECK_EQ(send(fd, &h, sizeof h, MSG_NOSIGNAL), sizeof h);
        CHECK_EQ(await_end(&p, fd), 0);
        check_talk(&p, 100 + i);
    }
    close_pair(&p);
}

TEST(a_crowd_of_silent_strangers_keeps_no_peer_out)
{
    struct pair p = open_pair();
    struct dt_tcp_card card;
    int crowd[3 * DT_TCP_CALLERS_MAX];
    for (size_t i = 0; i < sizeof crowd / sizeof *crowd; i++) {
        crowd[i] = dial(p.card[1], &card);
        CHECK_EQ(send(crowd[i], "half", 4, MSG_NOSIGNAL), 4);
    }
    connect_both(&p);
    check_talk(&p, 5);
    CHECK(p.w[1]->callers <= DT_TCP_CALLERS_MAX);
    /* Those that found a place do not keep it for ever. */
    for (size_t i = 0; i < sizeof crowd / sizeof *crowd; i++)
        CHECK_EQ(await_end(&p, crowd[i]), 0);
    CHECK_EQ(p.w[1]->callers, 0);
    check_talk(&p, 6);
    close_pair(&p);
}

static int listen_as(const struct dt_tcp_card *like, struct dt_tcp_card *card)
{
    *card = *like;
    if (like->at.ss_family == AF_INET)
        ((struct sockaddr_in *)&card->at)->sin_port = 0;
    else
        ((struct sockaddr_in6 *)&card->at)->sin6_port = 0;
    int fd = socket(card->at.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK_EQ(bind(fd, (struct sockaddr *)&card->at, card->len), 0);
    CHECK_EQ(getsockname(fd, (struct sockaddr *)&card->at, &card->len), 0);
    return fd;
}

/* Someone has the port of a rank that is gone, answers, and hopes for what was meant for it. */
TEST(who_does_not_know_the_answer_gets_no_message)
{
    struct pair p = open_pair();
    struct dt_tcp_card card;
    uint8_t bytes[DT_TCP_CARD];
    const char *why = "";
    struct dt_err err = {0};
    struct dt_wire_request *r;
    int door = listen_as(&p.w[1]->card, &card), calls = 0;
    CHECK_EQ(listen(door, 16), 0);
    dt_tcp_card_write(&card, bytes);
    CHECK_OK(ops->connect(p.w[0], 1, bytes, sizeof bytes, &err), err);
    CHECK_OK(ops->send(p.w[0], 1, 7, "secret", 6, &r, &err), err);
    while (ops->broken(p.w[0], 0, &why) < 0) {
        struct pollfd f = {.fd = door, .events = POLLIN};
        move(&p);
        if (poll(&f, 1, 0) <= 0)
            continue;
        struct dt_tcp_hello h;
        int fd = accept(door, NULL, NULL);
        while (recv(fd, &h, sizeof h, MSG_PEEK | MSG_DONTWAIT) < (ssize_t)sizeof h)
            move(&p);
        CHECK_EQ(recv(fd, &h, sizeof h, 0), sizeof h);
        h = (struct dt_tcp_hello){MAGIC, 1, 0, DT_TCP_MESSAGES, {0}};
        CHECK_EQ(send(fd, &h, sizeof h, MSG_NOSIGNAL), sizeof h);
        CHECK_EQ(await_end(&p, fd), 0);
        calls++;
    }
    CHECK(calls > 1);
    CHECK(strstr(why, "no connection to ") != NULL);
    CHECK_FAIL(ops->test(p.w[0], r, &err), err, "its connection broke (no connection to ");
    close(door);
    close_pair(&p);
}

TEST(where_nobody_listens_the_address_is_named)
{
    struct pair p = open_pair();
    struct dt_tcp_card card;
    uint8_t bytes[DT_TCP_CARD];
    char at[DT_TCP_TEXT];
    const char *why = "";
    struct dt_err err = {0};
    int held = listen_as(&p.w[1]->card, &card); /* and does not listen */
    dt_tcp_card_write(&card, bytes);
    CHECK_OK(ops->connect(p.w[0], 1, bytes, sizeof bytes, &err), err);
    while (ops->broken(p.w[0], 0, &why) < 0)
        move(&p);
    dt_tcp_address_print(&card.at, at);
    CHECK(strstr(why, at) != NULL);
    CHECK(strstr(why, "Connection refused") != NULL);
    close(held);
    close_pair(&p);
}

/* The lower rank makes the line of messages; the higher knows of its death all the same. */
TEST(a_rank_that_ends_before_it_calls_is_missed)
{
    struct pair p = open_pair();
    struct dt_err err = {0};
    const char *why = "";
    CHECK_OK(ops->connect(p.w[1], 0, p.card[0], DT_TCP_CARD, &err), err);
    struct dt_wire_request *r;
    uint64_t in;
    CHECK_OK(ops->recv(p.w[1], 0, 7, &in, sizeof in, &r, &err), err);
    while (!p.w[1]->peers[0] || p.w[1]->peers[0]->line[DT_TCP_PULSE].state != DT_TCP_OPEN)
        move(&p);
    ops->close(p.w[0]);
    while (ops->broken(p.w[1], 0, &why) < 0)
        ops->progress(p.w[1]);
    CHECK(strstr(why, " closed it") != NULL);
    ops->close(p.w[1]);
}

TEST(messages_before_their_receives_are_kept_within_a_bound)
{
    enum { MESSAGES = 96 };
    struct pair p = open_pair();
    struct dt_err err = {0};
    struct dt_wire_request *sent[MESSAGES], *got;
    char *out = malloc(MIB), *in = malloc(MIB);
    connect_both(&p);
    check_talk(&p, 1);
    memset(out, 'x', MIB);
    for (int i = 0; i < MESSAGES; i++)
        CHECK_OK(ops->send(p.w[0], 1, 2, out, MIB, &sent[i], &err), err);
    while (!p.w[1]->peers[0]->stuck)
        move(&p);
    for (int i = 0; i < 100; i++)
        move(&p);
    CHECK(p.w[1]->early_bytes <= DT_TCP_EARLY_MAX);
    CHECK(p.w[1]->early_bytes > DT_TCP_EARLY_MAX / 2);
    for (int i = 0; i < MESSAGES; i++) {
        memset(in, 0, MIB);
        CHECK_OK(ops->recv(p.w[1], 0, 2, in, MIB, &got, &err), err);
        finish(&p, 1, got);
        CHECK(memcmp(in, out, MIB) == 0);
        finish(&p, 0, sent[i]);
    }
    CHECK_EQ(p.w[1]->early_bytes, 0);
    check_talk(&p, 2);
    free(in);
    free(out);
    close_pair(&p);
}

/* It may be taken although it is larger than all that is kept. */
TEST(a_large_message_waits_for_its_receive)
{
    struct pair p = open_pair();
    struct dt_err err = {0};
    struct dt_wire_request *s, *r;
    size_t len = DT_TCP_EARLY_MAX + 12345;
    char *out = malloc(len), *in = malloc(len);
    connect_both(&p);
    for (size_t i = 0; i < len; i++)
        out[i] = (char)(i * 31 + (i >> 12));
    CHECK_OK(ops->send(p.w[0], 1, 2, out, len, &s, &err), err);
    while (!p.w[1]->peers[0] || !p.w[1]->peers[0]->stuck)
        move(&p);
    CHECK_EQ(p.w[1]->early_bytes, 0);
    CHECK_OK(ops->recv(p.w[1], 0, 2, in, len, &r, &err), err);
    finish(&p, 1, r);
    finish(&p, 0, s);
    CHECK(memcmp(in, out, len) == 0);
    free(in);
    free(out);
    close_pair(&p);
}

static const struct lengths {
    size_t sent, wanted;
    bool early;
} lengths[] = {{5 * MIB, 16, false}, {16, 5 * MIB, false}, {5 * MIB, 16, true},
               {0, 8, true},         {8, 0, false},        {3, 5, true}};

TEST(a_message_of_another_length_fails_its_receive_alone)
{
    struct pair p = open_pair();
    char *out = calloc(5, MIB), *in = malloc(5 * MIB), words[64];
    connect_both(&p);
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        const struct lengths *l = &lengths[i];
        struct dt_wire_request *s, *r;
        struct dt_err err = {0};
        int rc;
        CHECK_ROW("%zu for %zu", l->sent, l->wanted);
        snprintf(words, sizeof words, "%zu bytes came where %zu were expected", l->sent, l->wanted);
        memset(in, 'k', 5 * MIB);
        CHECK_OK(ops->send(p.w[0], 1, 3, out, l->sent, &s, &err), err);
        if (l->early)
            check_talk(&p, i);
        CHECK_OK(ops->recv(p.w[1], 0, 3, in, l->wanted, &r, &err), err);
        while ((rc = ops->test(p.w[1], r, &err)) == 0)
            move(&p);
        CHECK_FAIL(rc, err, words);
        CHECK_EQ(err.code, DT_E_PROTOCOL);
        CHECK_EQ(in[0], 'k');
        finish(&p, 0, s);
        check_talk(&p, 50 + i);
    }
    free(in);
    free(out);
    close_pair(&p);
}

/* A peer whose numbers make no sense costs its own connection and no memory. */
TEST(a_message_longer_than_memory_breaks_its_connection)
{
    struct pair p = open_pair();
    struct dt_tcp_card card;
    const char *why = "";
    int fd = dial(p.card[1], &card);
    struct dt_tcp_hello h = {MAGIC, 0, 1, DT_TCP_MESSAGES, {0}};
    struct dt_tcp_head head = {.tag = 2, .len = UINT64_MAX - 3};
    memcpy(h.secret, card.secrets.knock, sizeof h.secret);
    CHECK_EQ(send(fd, &h, sizeof h, MSG_NOSIGNAL), sizeof h);
    CHECK_EQ(send(fd, &head, sizeof head, MSG_NOSIGNAL), sizeof head);
    while (!p.w[1]->peers || !p.w[1]->peers[0] || !p.w[1]->peers[0]->stuck)
        move(&p);
    CHECK_EQ(p.w[1]->early_bytes, 0);
    CHECK_EQ(recv(fd, &h, sizeof h, MSG_WAITALL), sizeof h);
    CHECK(memcmp(h.secret, card.secrets.answer, sizeof h.secret) == 0);
    close(fd);
    while (ops->broken(p.w[1], 0, &why) < 0)
        move(&p);
    CHECK_STR(why, "no memory for a message of 18446744073709551612 bytes");
    close_pair(&p);
}

static const struct named {
    const char *name, *wrong; /* NULL: it is taken */
} named[] = {
    {"127.0.0.1", NULL},
    {"lo", NULL},
    {"localhost", NULL},
    {"::1", NULL},
    {"192.0.2.77", "cannot be let connect to 192.0.2.77"},
    {"no/such:name", "which is no interface and no address of this host"},
};

TEST(the_address_may_be_chosen)
{
    struct dt_err err = {0};
    for (size_t i = 0; i < sizeof named / sizeof *named; i++) {
        CHECK_ROW("DTRUN_COLL_ADDR=%s", named[i].name);
        setenv("DTRUN_COLL_ADDR", named[i].name, 1);
        if (named[i].wrong) {
            CHECK_FAIL(ops->open(0, &err) ? 0 : -1, err, named[i].wrong);
            continue;
        }
        struct pair p = open_pair();
        connect_both(&p);
        check_talk(&p, i);
        close_pair(&p);
    }
    unsetenv("DTRUN_COLL_ADDR");
}

TEST(a_card_of_another_wire_is_told_so)
{
    uint8_t bytes[DT_TCP_CARD] = {0};
    struct dt_err err = {0};
    struct pair p = open_pair();
    CHECK_FAIL(ops->connect(p.w[0], 1, bytes, sizeof bytes, &err), err, "cannot be read");
    CHECK_FAIL(ops->connect(p.w[0], 1, p.card[1], 8, &err), err, "cannot be read");
    close_pair(&p);
}
