/* SPDX-License-Identifier: Apache-2.0 */
/* Several clients of one small store, fed with byte streams in turns: the input is a series of (who
 * and how much, bytes). Nothing may crash or leak, books must balance, and buffers stay within
 * their bounds. */
#include "rendezvous/store/session.h"
#include "tests/fuzz/fuzz.h"

#define CLIENTS 4
#define MOST_OUT 4096

struct client {
    struct dt_store_session session;
    struct dt_buf in;
    bool closed;
};

static void on_wake(struct dt_store_session *s)
{
    FUZZ_CHECK(s->out.len > 0);
}

static void feed(struct client *c, const uint8_t *bytes, size_t len)
{
    dt_buf_put(&c->in, bytes, len);
    while (!c->closed) {
        size_t used;
        enum dt_c10d_op op;
        struct dt_err err;
        switch (dt_store_session_step(&c->session, c->in.at, c->in.len, &used, &op, &err)) {
        case DT_DONE:
            FUZZ_CHECK(used > 0 && used <= c->in.len);
            dt_buf_consume(&c->in, used);
            if (c->session.out.len > MOST_OUT / 2)
                dt_buf_clear(&c->session.out); /* the peer reads */
            break;
        case DT_BAD:
            dt_store_session_finish(&c->session);
            c->closed = true;
            break;
        case DT_MORE:
            return;
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct dt_store_limits limits = {.keys = 20, .bytes = 8192, .value = 1024};
    struct dt_c10d_limits request = {.key = 64, .value = 1024, .keys = 16, .whole = 4096};
    struct dt_store *store = dt_store_create(&limits, 1);
    struct client clients[CLIENTS] = {0};
    for (int i = 0; i < CLIENTS; i++)
        dt_store_session_init(&clients[i].session, store, &request,
                              i == 3 ? DT_C10D_L2 : DT_C10D_L1, MOST_OUT, on_wake);
    while (size > 0) {
        size_t len = data[0] >> 2;
        struct client *c = &clients[data[0] & 3];
        data++;
        size--;
        if (len > size)
            len = size;
        if (!c->closed)
            feed(c, data, len);
        data += len;
        size -= len;
        FUZZ_CHECK(dt_store_counts(store)->bytes <= limits.bytes);
    }
    for (int i = 0; i < CLIENTS; i++) {
        if (!clients[i].closed)
            dt_store_session_finish(&clients[i].session);
        dt_buf_finish(&clients[i].in);
    }
    FUZZ_CHECK(dt_store_counts(store)->waiting == 0);
    dt_store_destroy(store);
    return 0;
}
