/* SPDX-License-Identifier: Apache-2.0 */
/* See fill.h. A batch is at most 256 requests and, beyond one request, at most 64 KiB: it fits into
 * the buffers of the kernel, so sending cannot wait for a server that waits for us to read. */
#include "bench/fill.h"

#include "bench/load.h"

enum { BATCH_KEYS = 256, BATCH_BYTES = 64 * 1024 };

struct filler {
    const struct dial *d;
    int fd;
    struct key key;
    struct out one;   /* a single SET */
    struct out batch; /* room for a batch of them, and the probe */
    unsigned long per_batch;
};

static int filler_init(struct filler *x, const struct dial *d, struct key key, size_t value_size,
                       struct dt_err *err)
{
    *x = (struct filler){.d = d, .fd = -1, .key = key};
    d->wire->set(d->wire, &x->one, &key, value_size);
    x->per_batch = x->one.text.bad ? 0 : BATCH_BYTES / x->one.text.len;
    if (x->per_batch < 1)
        x->per_batch = 1;
    if (x->per_batch > BATCH_KEYS)
        x->per_batch = BATCH_KEYS;
    for (unsigned long i = 0; i < x->per_batch; i++)
        dt_buf_put(&x->batch.text, x->one.text.at, x->one.text.len);
    if (!d->wire->set_is_answered)
        d->wire->probe(d->wire, &x->batch);
    if (x->one.text.bad || x->batch.text.bad)
        return dt_err_set(err, DT_E_RUNTIME, "out of memory for requests");
    x->fd = dial_open(d, err);
    return x->fd < 0 ? -1 : 0;
}

static void filler_finish(struct filler *x)
{
    dt_buf_finish(&x->one.text);
    dt_buf_finish(&x->batch.text);
    dial_close(x->fd);
}

/* Sends keys FIRST to FIRST + N - 1 and waits until they have arrived. A short batch is the end of
 * the full one, where the probe stands. */
static int send_batch(struct filler *x, unsigned long first, unsigned long n, struct dt_err *err)
{
    const struct wire *w = x->d->wire;
    uint8_t *at = x->batch.text.at + (x->per_batch - n) * x->one.text.len;
    for (unsigned long i = 0; i < n; i++)
        key_put_digits(at + i * x->one.text.len + x->one.key_at[0], x->key.digits,
                       (uint32_t)(first + i));
    struct answer last;
    size_t len = x->batch.text.len - (x->per_batch - n) * x->one.text.len;
    if (dial_send(x->d, x->fd, at, len, err) < 0)
        return -1;
    return dial_answers(x->d, x->fd, ANSWER_OK, w->set_is_answered ? n : 1, &last, err);
}

static int send_all(struct filler *x, unsigned long keys, double seconds, struct hist *latency,
                    struct dt_err *err)
{
    uint64_t start = load_now();
    uint64_t then = start;
    for (unsigned long done = 0; done < keys;) {
        unsigned long n = keys - done < x->per_batch ? keys - done : x->per_batch;
        if (send_batch(x, done, n, err) < 0)
            return -1;
        done += n;
        uint64_t now = load_now();
        if (latency)
            hist_add(latency, now - then);
        then = now;
        if (done < keys && (double)(now - start) / 1e9 > seconds)
            return dt_err_set(err, DT_E_RUNTIME, "%s took only %lu of %lu keys in %.3g s",
                              x->d->name, done, keys, seconds);
    }
    return 0;
}

int fill_values(const struct dial *d, struct key key, unsigned long keys, size_t value_size,
                struct dt_err *err)
{
    struct filler x;
    key.family = 'v';
    int rc = filler_init(&x, d, key, value_size, err);
    if (rc == 0)
        rc = send_all(&x, keys, 60, NULL, err);
    filler_finish(&x);
    return rc;
}

int fill_run(const struct dial *d, struct key key, unsigned long keys, size_t value_size,
             double seconds, struct fill_result *r, struct dt_err *err)
{
    struct filler x;
    uint64_t start = 0;
    key.family = 'f';
    int rc = filler_init(&x, d, key, value_size, err);
    if (rc == 0)
        rc = dial_count(d, x.fd, &r->before, err);
    if (rc == 0) {
        start = load_now();
        rc = send_all(&x, keys, seconds, &r->latency, err);
    }
    if (rc == 0) {
        r->seconds = (double)(load_now() - start) / 1e9;
        rc = dial_count(d, x.fd, &r->after, err);
    }
    r->verified = rc == 0 && r->after - r->before == (int64_t)keys;
    filler_finish(&x);
    return rc;
}
