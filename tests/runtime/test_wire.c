/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/runtime/ranks.h"
#include "worker_runtime/coll/wire/wire.h"

#include <poll.h>
#include <stdatomic.h>

#define CEILING (60 * DT_SECOND)

struct end {
    struct rank_self *me;
    const struct dt_wire_ops *ops;
    struct dt_wire *wire;
};

static void name_key(char *out, size_t size, const char *what, int rank)
{
    snprintf(out, size, "wire/%s/%d", what, rank);
}

/* Opens this rank's end, connected with all others. */
static struct end open_end(struct rank_self *me)
{
    struct end e = {.me = me};
    struct dt_err err = {0};
    char key[64], address[DT_WIRE_ADDRESS_MAX];
    size_t len;
    e.ops = dt_wire_load(&err);
    CHECK_OK(e.ops ? 0 : -1, err);
    e.wire = e.ops->open(me->rank, &err);
    CHECK_OK(e.wire ? 0 : -1, err);
    CHECK_OK(e.ops->address(e.wire, address, &len, &err), err);
    struct dt_meeting *m = &me->meeting->table;
    name_key(key, sizeof key, "len", me->rank);
    CHECK_OK(m->set(m, key, &len, sizeof len, &err), err);
    name_key(key, sizeof key, "address", me->rank);
    CHECK_OK(m->set(m, key, address, len, &err), err);
    for (int r = 0; r < me->size; r++) {
        if (r == me->rank)
            continue;
        name_key(key, sizeof key, "len", r);
        CHECK_OK(m->get(m, key, &len, sizeof len, CEILING, &err), err);
        name_key(key, sizeof key, "address", r);
        CHECK_OK(m->get(m, key, address, len, CEILING, &err), err);
        CHECK_OK(e.ops->connect(e.wire, r, address, len, &err), err);
    }
    return e;
}

static void doze(struct end *e)
{
    e->ops->progress(e->wire);
    struct pollfd p = {.fd = e->ops->wait_fd(e->wire), .events = POLLIN};
    if (p.fd >= 0)
        poll(&p, 1, 20);
}

static int finish(struct end *e, struct dt_wire_request *r, struct dt_err *err)
{
    int rc;
    while ((rc = e->ops->test(e->wire, r, err)) == 0)
        doze(e);
    return rc < 0 ? -1 : 0;
}

static void send_all(struct end *e, int to, uint64_t tag, const void *bytes, size_t len)
{
    struct dt_wire_request *r;
    struct dt_err err = {0};
    CHECK_OK(e->ops->send(e->wire, to, tag, bytes, len, &r, &err), err);
    CHECK_OK(finish(e, r, &err), err);
}

static void recv_all(struct end *e, int from, uint64_t tag, void *bytes, size_t len)
{
    struct dt_wire_request *r;
    struct dt_err err = {0};
    CHECK_OK(e->ops->recv(e->wire, from, tag, bytes, len, &r, &err), err);
    CHECK_OK(finish(e, r, &err), err);
}

static uint8_t byte_of(int from, size_t i)
{
    return (uint8_t)(i * 7 + (i >> 8) + (size_t)from);
}

static const size_t sizes[] = {0, 1, 4095, 65537, (size_t)5 << 20};

/* Both directions at once; sizes on both sides of every change of UCX's protocol. */
static void exchanges(struct rank_self *me)
{
    struct end e = open_end(me);
    uint8_t *out = malloc((size_t)5 << 20), *in = malloc((size_t)5 << 20);
    int other = 1 - me->rank;
    struct dt_err err = {0};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        struct dt_wire_request *sent, *got;
        for (size_t i = 0; i < sizes[s]; i++)
            out[i] = byte_of(me->rank, i);
        CHECK_OK(e.ops->send(e.wire, other, 3, out, sizes[s], &sent, &err), err);
        CHECK_OK(e.ops->recv(e.wire, other, 3, in, sizes[s], &got, &err), err);
        CHECK_OK(finish(&e, got, &err), err);
        CHECK_OK(finish(&e, sent, &err), err);
        for (size_t i = 0; i < sizes[s]; i++)
            if (in[i] != byte_of(other, i))
                CHECK_EQ(in[i], byte_of(other, i));
    }
    const char *why;
    CHECK_EQ(e.ops->broken(e.wire, 0, &why), -1);
    atomic_fetch_add((_Atomic int *)me->shared, 1);
    while (atomic_load((_Atomic int *)me->shared) < 2)
        doze(&e);
    e.ops->close(e.wire);
    free(in);
    free(out);
}

TEST(two_ranks_exchange_messages_of_all_sizes)
{
    ranks_run(2, exchanges, NULL);
}

/* Rank 2 hears 0 and 1, and asks in the order in which they did not send. */
static void is_told_apart(struct rank_self *me)
{
    struct end e = open_end(me);
    if (me->rank < 2) {
        for (uint32_t i = 0; i < 4; i++) {
            uint32_t v = 100 * (uint32_t)me->rank + i;
            send_all(&e, 2, i / 2, &v, sizeof v);
        }
        recv_all(&e, 2, 9, NULL, 0);
    } else {
        for (int from = 1; from >= 0; from--)
            for (uint32_t i = 0; i < 4; i++) {
                uint32_t v, which = (i + 2) % 4;
                recv_all(&e, from, which / 2, &v, sizeof v);
                CHECK_EQ(v, 100 * (uint32_t)from + which);
            }
        send_all(&e, 0, 9, NULL, 0);
        send_all(&e, 1, 9, NULL, 0);
        e.ops->flush(e.wire, CEILING);
    }
    e.ops->close(e.wire);
}

TEST(messages_are_told_apart_by_sender_and_tag_and_keep_their_order)
{
    ranks_run(3, is_told_apart, NULL);
}

static void is_short(struct rank_self *me)
{
    struct end e = open_end(me);
    uint64_t v[2] = {0};
    struct dt_wire_request *r;
    struct dt_err err = {0};
    if (me->rank == 0) {
        send_all(&e, 1, 1, v, 8);
        recv_all(&e, 1, 2, v, 0);
    } else {
        CHECK_OK(e.ops->recv(e.wire, 0, 1, v, 16, &r, &err), err);
        CHECK_FAIL(finish(&e, r, &err), err, "8 bytes came where 16 were expected");
        send_all(&e, 0, 2, v, 0);
        e.ops->flush(e.wire, CEILING);
    }
    e.ops->close(e.wire);
}

TEST(a_message_of_another_size_is_an_error)
{
    ranks_run(2, is_short, NULL);
}

/* Waits for a message from rank 0, who is killed meanwhile. */
static void sees_death(struct rank_self *me)
{
    struct end e = open_end(me);
    uint64_t v = 1;
    const char *why = "";
    if (me->rank == 0) {
        send_all(&e, 1, 1, &v, sizeof v);
        for (;;)
            doze(&e);
    }
    recv_all(&e, 0, 1, &v, sizeof v);
    struct dt_wire_request *r;
    struct dt_err err = {0};
    CHECK_OK(e.ops->recv(e.wire, 0, 1, &v, sizeof v, &r, &err), err);
    atomic_store((_Atomic int *)me->shared, 1);
    int gone;
    while ((gone = e.ops->broken(e.wire, 0, &why)) < 0)
        doze(&e);
    CHECK_EQ(gone, 0);
    CHECK(strlen(why) > 0);
    CHECK_EQ(e.ops->broken(e.wire, 1, &why), -1);
    e.ops->close(e.wire); /* with a receive still under way */
}

TEST(the_death_of_a_peer_is_seen)
{
    struct ranks *r = ranks_start(2, sees_death, NULL);
    while (atomic_load((_Atomic int *)r->proto.shared) == 0)
        usleep(1000);
    ranks_kill(r, 0, SIGKILL);
    ranks_end(r);
}

TEST(without_the_helper_library_the_sentence_says_what_to_install)
{
    struct dt_err err = {0};
    char *had = strdup(getenv("DTRUN_PLUGIN_DIR") ? getenv("DTRUN_PLUGIN_DIR") : "");
    setenv("DTRUN_PLUGIN_DIR", "/nonexistent", 1);
    setenv("DTRUN_WIRE", "ucx", 1);
    CHECK_FAIL(dt_wire_load(&err) ? 0 : -1, err, "Debian: libucx0");
    CHECK(strstr(err.text, "there is no dt_ucx.so in /nonexistent/") != NULL);
    setenv("DTRUN_PLUGIN_DIR", had, 1);
    free(had);
}
