/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/output/lines.h"

struct scan {
    const uint8_t *at, *end;
    const uint8_t *cr; /* the next \r from `at` on, `end` if there is none; NULL: not looked for */
};

static const uint8_t *find(const uint8_t *at, const uint8_t *end, int byte)
{
    const uint8_t *found = memchr(at, byte, (size_t)(end - at));
    return found ? found : end;
}

/* With its end; 0: it has none yet. Output without \r is looked through for them once, not once for
 * each line. */
static size_t line_length(struct scan *s)
{
    if (!s->cr || s->cr < s->at)
        s->cr = find(s->at, s->end, '\r');
    const uint8_t *last = find(s->at, s->cr, '\n');
    if (last == s->end)
        return 0;
    if (*last == '\r' && last + 1 < s->end && last[1] == '\n')
        last++;
    return (size_t)(last + 1 - s->at);
}

static void pass(struct dt_lines *l, struct dt_bytes piece, bool ends, dt_lines_fn *fn, void *arg)
{
    bool starts = !l->open;
    l->open = !ends;
    fn(arg, piece, starts, ends);
}

void dt_lines_show(struct dt_lines *l, dt_lines_fn *fn, void *arg)
{
    if (l->tail.len)
        pass(l, (struct dt_bytes){l->tail.at, l->tail.len}, false, fn, arg);
    dt_buf_clear(&l->tail);
}

static bool hold(struct dt_lines *l, struct dt_bytes b)
{
    if (l->tail.len + b.len > DT_LINES_LONGEST)
        return false;
    dt_buf_put(&l->tail, b.at, b.len);
    bool held = !l->tail.bad;
    l->tail.bad = false; /* what it held before is still there */
    return held;
}

static void take_unfinished(struct dt_lines *l, struct dt_bytes b, dt_lines_fn *fn, void *arg)
{
    if (hold(l, b))
        return;
    dt_lines_show(l, fn, arg);
    pass(l, b, false, fn, arg);
}

static void take_line(struct dt_lines *l, struct dt_bytes line, dt_lines_fn *fn, void *arg)
{
    if (l->tail.len && hold(l, line)) {
        pass(l, (struct dt_bytes){l->tail.at, l->tail.len}, true, fn, arg);
        dt_buf_clear(&l->tail);
        return;
    }
    dt_lines_show(l, fn, arg);
    pass(l, line, true, fn, arg);
}

void dt_lines_put(struct dt_lines *l, struct dt_bytes in, dt_lines_fn *fn, void *arg)
{
    if (in.len == 0)
        return;
    struct scan s = {.at = in.at, .end = in.at + in.len};
    if (l->after_cr && *s.at == '\n') {
        fn(arg, (struct dt_bytes){s.at, 1}, false, true);
        s.at++;
    }
    l->after_cr = false;
    while (s.at < s.end) {
        size_t len = line_length(&s);
        if (len == 0) {
            take_unfinished(l, (struct dt_bytes){s.at, (size_t)(s.end - s.at)}, fn, arg);
            return;
        }
        take_line(l, (struct dt_bytes){s.at, len}, fn, arg);
        s.at += len;
        l->after_cr = s.at == s.end && s.at[-1] == '\r';
    }
}

void dt_lines_end(struct dt_lines *l, dt_lines_fn *fn, void *arg)
{
    dt_lines_show(l, fn, arg);
    if (l->open)
        pass(l, dt_bytes_of("\n"), true, fn, arg);
}

void dt_lines_finish(struct dt_lines *l)
{
    dt_buf_finish(&l->tail);
    *l = (struct dt_lines){0};
}
