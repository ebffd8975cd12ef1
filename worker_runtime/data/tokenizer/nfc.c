/* SPDX-License-Identifier: Apache-2.0 */
/* Unicode's normal form of composed characters (NFC), as of the tables of Unicode 10: those of
 * Hugging Face's tokenizers. Most characters are their own normal form, and what stands beside them
 * does not change that. What is left are runs of a few characters: these are taken apart, put in
 * order and composed, as the Unicode standard says (section 3.11, and 3.12 of Hangul). */
#include "base/list.h"
#include "base/utf8.h"
#include "worker_runtime/data/tokenizer/stage.h"

#include <stdlib.h>

#define FIRST_MARK 0x300 /* below it a character composes with nothing before it */
#define CLASSES 256

/* Zeroed memory is ready. */
struct nfc {
    uint32_t *codes; /* of characters that are put in order; the owner frees them */
    size_t count, room;
};

struct decomposition {
    uint32_t code, first, second; /* SECOND is 0: one character stands for another */
};

struct class_range {
    uint32_t first, last;
    uint8_t class_of;
};

/* decompositions[], by code; compositions[]: places in it, by first and second; classes[]: ranges
 * of combining classes that are not 0; seconds[]: what composes with a character before it. */
#include "worker_runtime/data/tokenizer/nfc_tables.inc"

#define COUNT(table) (sizeof(table) / sizeof *(table))

enum { L = 0x1100, V = 0x1161, T = 0x11a7, S = 0xac00, LS = 19, VS = 21, TS = 28 };

/* -- tables ----------------------------------------------------------------------------------- */

static bool is_syllable(uint32_t c)
{
    return c >= S && c < S + LS * VS * TS;
}

static int compare_codes(const void *key, const void *row)
{
    uint32_t code = *(const uint32_t *)key, other = ((const struct decomposition *)row)->code;
    return code < other ? -1 : code > other;
}

static const struct decomposition *decomposition_of(uint32_t c)
{
    return bsearch(&c, decompositions, COUNT(decompositions), sizeof *decompositions,
                   compare_codes);
}

static int compare_ranges(const void *key, const void *row)
{
    const struct class_range *r = row;
    uint32_t code = *(const uint32_t *)key;
    return code < r->first ? -1 : code > r->last;
}

static uint8_t combining_class(uint32_t c)
{
    if (c < FIRST_MARK)
        return 0;
    const struct class_range *r =
        bsearch(&c, classes, COUNT(classes), sizeof *classes, compare_ranges);
    return r ? r->class_of : 0;
}

static int compare_numbers(const void *key, const void *row)
{
    uint32_t a = *(const uint32_t *)key, b = *(const uint32_t *)row;
    return a < b ? -1 : a > b;
}

static bool is_second(uint32_t c)
{
    return (c >= V && c < V + VS) || (c > T && c < T + TS) ||
           bsearch(&c, seconds, COUNT(seconds), sizeof *seconds, compare_numbers);
}

static int compare_pairs(const void *key, const void *row)
{
    const uint32_t *pair = key;
    const struct decomposition *d = &decompositions[*(const uint16_t *)row];
    if (pair[0] != d->first)
        return pair[0] < d->first ? -1 : 1;
    return pair[1] < d->second ? -1 : pair[1] > d->second;
}

/* What A and B compose to; 0: nothing. */
static uint32_t composed(uint32_t a, uint32_t b)
{
    const uint32_t pair[2] = {a, b};
    if (a >= L && a < L + LS && b >= V && b < V + VS)
        return S + ((a - L) * VS + (b - V)) * TS;
    if (is_syllable(a) && (a - S) % TS == 0 && b > T && b < T + TS)
        return a + (b - T);
    const uint16_t *at =
        bsearch(pair, compositions, COUNT(compositions), sizeof *compositions, compare_pairs);
    return at ? decompositions[*at].code : 0;
}

/* Whether what stands before the character CODE has no influence on it, nor it on that. */
static bool begins(uint32_t code)
{
    if (code < FIRST_MARK || (code >= 0x3400 && code < 0xa000) || is_syllable(code))
        return true;
    if (combining_class(code) || is_second(code))
        return false;
    const struct decomposition *d = decomposition_of(code);
    return !d || begins(d->first);
}

/* Whether C, with nothing around it that it composes with, stays what it is. */
static bool stays_alone(uint32_t c)
{
    return c < FIRST_MARK || (c >= 0x3400 && c < 0xa000) || is_syllable(c) || !decomposition_of(c);
}

/* -- a run ------------------------------------------------------------------------------------ */

static void add(struct nfc *n, uint32_t c, struct dt_buf *out)
{
    if (n->count == n->room) {
        size_t room = n->room ? 2 * n->room : 64;
        uint32_t *codes = realloc(n->codes, room * sizeof *codes);
        if (!codes) {
            out->bad = true;
            return;
        }
        n->codes = codes;
        n->room = room;
    }
    n->codes[n->count++] = c;
}

static void take_apart(struct nfc *n, uint32_t c, struct dt_buf *out)
{
    const struct decomposition *d;
    if (is_syllable(c)) {
        uint32_t s = c - S;
        add(n, L + s / (VS * TS), out);
        add(n, V + s / TS % VS, out);
        if (s % TS)
            add(n, T + s % TS, out);
    } else if ((d = decomposition_of(c))) {
        take_apart(n, d->first, out);
        if (d->second)
            take_apart(n, d->second, out);
    } else {
        add(n, c, out);
    }
}

/* Marks by their class, those of one class as they stood. By counting: a text may have a million
 * marks in a row. */
static int order_marks(uint32_t *marks, size_t count)
{
    size_t starts[CLASSES + 1] = {0};
    uint32_t *sorted = malloc(count * sizeof *sorted);
    if (!sorted)
        return -1;
    for (size_t i = 0; i < count; i++)
        starts[combining_class(marks[i]) + 1]++;
    for (size_t i = 1; i < CLASSES; i++)
        starts[i] += starts[i - 1];
    for (size_t i = 0; i < count; i++)
        sorted[starts[combining_class(marks[i])]++] = marks[i];
    memcpy(marks, sorted, count * sizeof *sorted);
    free(sorted);
    return 0;
}

static int order(struct nfc *n)
{
    for (size_t i = 0; i < n->count;) {
        size_t start = i;
        bool sorted = true;
        uint8_t before = 0, now;
        for (; i < n->count && (now = combining_class(n->codes[i])); i++) {
            sorted &= before <= now;
            before = now;
        }
        if (!sorted && order_marks(n->codes + start, i - start) < 0)
            return -1;
        i += i < n->count && i == start;
    }
    return 0;
}

/* In place. A mark composes with the last starter unless one of its own class, or a starter, stands
 * between them. */
static void compose(struct nfc *n)
{
    size_t starter = SIZE_MAX, len = 0;
    uint8_t before = 0;
    for (size_t i = 0; i < n->count; i++) {
        uint32_t c = n->codes[i];
        uint8_t now = combining_class(c);
        bool adjacent = starter != SIZE_MAX && starter + 1 == len;
        bool blocked = starter == SIZE_MAX || (!adjacent && before >= now);
        uint32_t both = blocked ? 0 : composed(n->codes[starter], c);
        if (both) {
            n->codes[starter] = both;
            continue;
        }
        if (now == 0)
            starter = len;
        before = now;
        n->codes[len++] = c;
    }
    n->count = len;
}

static void put_code(struct dt_buf *out, uint32_t c)
{
    uint8_t b[4];
    size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (size_t i = n; i-- > 1; c >>= 6)
        b[i] = (uint8_t)(0x80 | (c & 0x3f));
    static const uint8_t lead[5] = {0, 0, 0xc0, 0xe0, 0xf0};
    b[0] = (uint8_t)(lead[n] | c);
    dt_buf_put(out, b, n);
}

static void put_run(struct nfc *n, struct dt_bytes run, struct dt_buf *out)
{
    n->count = 0;
    for (size_t i = 0, len; i < run.len; i += len) {
        len = dt_utf8_len(run.at + i, run.len - i);
        take_apart(n, dt_utf8_code(run.at + i, len), out);
    }
    if (out->bad || order(n) < 0) {
        out->bad = true;
        return;
    }
    compose(n);
    for (size_t i = 0; i < n->count; i++)
        put_code(out, n->codes[i]);
}

/* The length of the characters at AT up to the next that begins anew, and whether they are one that
 * stays as it is. */
static size_t run_at(struct dt_bytes text, size_t at, bool *stays)
{
    size_t i = at + dt_utf8_len(text.at + at, text.len - at);
    uint32_t c = dt_utf8_code(text.at + at, i - at);
    *stays = stays_alone(c) && combining_class(c) == 0;
    while (i < text.len && text.at[i] >= 0x80) {
        size_t len = dt_utf8_len(text.at + i, text.len - i);
        if (begins(dt_utf8_code(text.at + i, len)))
            break;
        *stays = false;
        i += len;
    }
    return i - at;
}

/* Appends TEXT, which is UTF-8, normalized. */
static void normalize(struct nfc *n, struct dt_bytes text, struct dt_buf *out)
{
    size_t done = 0;
    if (text.len == 0)
        return;
    for (size_t i = 0, len; i < text.len; i += len) {
        bool stays;
        len = run_at(text, i, &stays);
        if (stays)
            continue;
        dt_buf_put(out, text.at + done, i - done);
        put_run(n, (struct dt_bytes){text.at + i, len}, out);
        done = i + len;
    }
    dt_buf_put(out, text.at + done, text.len - done);
}

/* -- the stage -------------------------------------------------------------------------------- */

struct nfc_stage {
    struct dt_stage stage;
    struct nfc nfc;
    struct dt_buf held, out; /* from the last character on that begins anew; what is passed on */
};

/* Where the last character of TEXT that begins anew stands; its length: none does. */
static size_t last_beginning(struct dt_bytes text)
{
    for (size_t at = text.len; at > 0;) {
        size_t end = at--;
        while (at > 0 && (text.at[at] & 0xc0) == 0x80)
            at--;
        if (begins(dt_utf8_code(text.at + at, end - at)))
            return at;
    }
    return text.len;
}

static void push_nfc(struct dt_stage *stage, struct dt_bytes part, bool end)
{
    struct nfc_stage *s = dt_container_of(stage, struct nfc_stage, stage);
    size_t done = end ? part.len : last_beginning(part);
    if (!dt_stage_hold(stage, &s->held, (struct dt_bytes){part.at, done}))
        return;
    if (done < part.len || end) {
        dt_buf_clear(&s->out);
        normalize(&s->nfc, (struct dt_bytes){s->held.at, s->held.len}, &s->out);
        dt_buf_clear(&s->held);
        if (dt_stage_has_room(stage, &s->out) && (s->out.len || end))
            stage->next->push(
                stage->next,
                s->out.len ? (struct dt_bytes){s->out.at, s->out.len} : dt_stage_nothing(), end);
    }
    dt_stage_hold(stage, &s->held, (struct dt_bytes){part.at + done, part.len - done});
}

static void destroy_nfc(struct dt_stage *stage)
{
    struct nfc_stage *s = dt_container_of(stage, struct nfc_stage, stage);
    free(s->nfc.codes);
    dt_buf_finish(&s->held);
    dt_buf_finish(&s->out);
    free(s);
}

struct dt_stage *dt_stage_nfc(const struct dt_step *step, struct dt_err *err)
{
    struct nfc_stage *s = calloc(1, sizeof *s);
    (void)step;
    if (!s) {
        dt_err_set(err, DT_E_MEMORY, "no memory for a tokenizer");
        return NULL;
    }
    s->stage = (struct dt_stage){.push = push_nfc, .destroy = destroy_nfc};
    return &s->stage;
}
