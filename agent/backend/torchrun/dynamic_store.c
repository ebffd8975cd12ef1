/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/backend/torchrun/dynamic_store.h"

static struct dt_bytes content(const struct dt_buf *b)
{
    return (struct dt_bytes){b->at, b->len};
}

void dt_dynamic_store_finish(struct dt_dynamic_store *d)
{
    dt_dynamic_finish(&d->state);
    dt_buf_finish(&d->key);
    dt_buf_finish(&d->token);
    dt_buf_finish(&d->text);
}

static struct dt_bytes key(struct dt_dynamic_store *d)
{
    dt_buf_clear(&d->key);
    dt_buf_printf(&d->key, "/torch.rendezvous.%s", d->run_id);
    return content(&d->key);
}

static int lost(const struct dt_dynamic_store *d, struct dt_err *err)
{
    return dt_err_set(err, DT_E_PROTOCOL,
                      "the store has lost the state of job \"%s\"; was it started anew?",
                      d->run_id);
}

static int adopt(struct dt_dynamic_store *d, struct dt_bytes value, struct dt_err *err)
{
    dt_buf_clear(&d->token);
    dt_buf_put(&d->token, value.at, value.len);
    if (d->token.bad)
        return dt_err_set(err, DT_E_MEMORY, "no memory for a state of %zu bytes", value.len);
    bool nothing = dt_bytes_equal(value, dt_bytes_of(DT_DYNAMIC_NOTHING));
    if (nothing && d->begun)
        return lost(d, err);
    d->begun = !nothing;
    return d->begun && dt_dynamic_read(&d->state, value, err) < 0
               ? dt_err_wrap(err, "the state of job \"%s\"", d->run_id)
               : 0;
}

static void synced(struct dt_dynamic_store *d, const struct dt_c10d_reply *reply,
                   const struct dt_err *err)
{
    struct dt_err wrong;
    d->syncing = false;
    if (!err && adopt(d, reply->value, &wrong) < 0)
        err = &wrong;
    d->on_synced(d, err);
}

static void on_read(void *arg, const struct dt_c10d_reply *reply, const struct dt_err *err)
{
    struct dt_dynamic_store *d = arg;
    d->opened |= !err;
    synced(d, reply, err);
}

/* What comes back is what the key holds now. If that is what was expected, and yet not replaced,
 * there is no such key: the store answers with our own words. */
static void on_written(void *arg, const struct dt_c10d_reply *reply, const struct dt_err *err)
{
    struct dt_dynamic_store *d = arg;
    struct dt_err wrong;
    if (!err && dt_bytes_equal(reply->value, content(&d->token)) &&
        !dt_bytes_equal(reply->value, content(&d->text))) {
        lost(d, &wrong);
        err = &wrong;
    }
    synced(d, reply, err);
}

static int ask(struct dt_dynamic_store *d, const struct dt_c10d_request *req,
               dt_store_done_fn *done, struct dt_err *err)
{
    if (d->key.bad || d->text.bad)
        return dt_err_set(err, DT_E_MEMORY, "no memory for the state of job \"%s\"", d->run_id);
    int rc = dt_store_client_request(d->client, req, d->timeout, done, d, err);
    d->syncing = rc == 0;
    return rc;
}

/* The first time in a way that makes the key if there is none: to GET it would be to wait. */
int dt_dynamic_store_read(struct dt_dynamic_store *d, struct dt_err *err)
{
    struct dt_c10d_request get = {.op = DT_C10D_GET, .key = key(d)};
    struct dt_c10d_request make = {
        .op = DT_C10D_COMPARE_SET, .key = get.key, .desired = dt_bytes_of(DT_DYNAMIC_NOTHING)};
    return ask(d, d->opened ? &get : &make, on_read, err);
}

int dt_dynamic_store_write(struct dt_dynamic_store *d, struct dt_err *err)
{
    struct dt_c10d_request swap = {.op = DT_C10D_COMPARE_SET, .key = key(d)};
    dt_buf_clear(&d->text);
    dt_dynamic_write(&d->state, &d->text);
    swap.value = content(&d->token);
    swap.desired = content(&d->text);
    return ask(d, &swap, on_written, err);
}
