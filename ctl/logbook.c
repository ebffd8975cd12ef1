/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/logbook.h"

#include "base/json_write.h"
#include "base/utf8.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NUMBER_MAX ((int64_t)1 << 53)
#define STAND_IN "\xef\xbf\xbd" /* U+FFFD */

struct dt_logbook_stream {
    int64_t rank;
    bool err;
    int64_t since, next; /* which stream, and how far it is known */
    int64_t round;
    char role[64], node[256];
    struct dt_buf line;  /* that has no end yet */
    bool after_cr;       /* a \n is the rest of a line end */
    struct dt_buf lines; /* that wait for their turn */
};

struct piece {
    const char *node, *role; /* of the page */
    int64_t round;           /* as well */
    int64_t rank, since, at, next;
    bool err, open;
    const char *text;      /* NULL: nobody has it ... */
    const char *inherited; /* ... as the worker writes there itself */
};

/* -- which stream ----------------------------------------------------------------------------- */

static int compare(const struct dt_logbook_stream *s, const struct piece *p)
{
    if (s->rank != p->rank)
        return s->rank < p->rank ? -1 : 1;
    return (int)s->err - (int)p->err;
}

/* Where the stream of P is, or would be. */
static size_t place_of(const struct dt_logbook *b, const struct piece *p)
{
    size_t low = 0, high = b->len;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (compare(&b->streams[middle], p) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* NULL: no memory. */
static struct dt_logbook_stream *stream_of(struct dt_logbook *b, const struct piece *p)
{
    size_t at = place_of(b, p);
    if (at < b->len && compare(&b->streams[at], p) == 0)
        return &b->streams[at];
    if (b->len == b->room) {
        size_t room = b->room ? 2 * b->room : 16;
        struct dt_logbook_stream *more = realloc(b->streams, room * sizeof *more);
        if (!more)
            return NULL;
        b->streams = more;
        b->room = room;
    }
    memmove(&b->streams[at + 1], &b->streams[at], (b->len - at) * sizeof *b->streams);
    b->len++;
    b->streams[at] = (struct dt_logbook_stream){.rank = p->rank, .err = p->err};
    return &b->streams[at];
}

/* -- lines ------------------------------------------------------------------------------------ */

static const char *stream_name(const struct dt_logbook_stream *s)
{
    return s->err ? "stderr" : "stdout";
}

static void put_text_line(bool prefix, struct dt_logbook_stream *s, struct dt_buf *to)
{
    struct dt_buf name = {0};
    dt_buf_printf(&name, "[%s%" PRId64 "]:", s->role, s->rank);
    if (prefix)
        dt_utf8_put_visible(to, dt_buf_cstr(&name), "");
    dt_utf8_put_visible(to, dt_buf_cstr(&s->line), "\t");
    dt_buf_finish(&name);
}

static void put_json_line(struct dt_logbook_stream *s, struct dt_buf *to)
{
    struct dt_json_writer w = {.out = to};
    dt_json_put_object(&w, NULL);
    dt_json_put_text(&w, "node", s->node);
    dt_json_put_int(&w, "round", s->round);
    dt_json_put_text(&w, "role", s->role);
    dt_json_put_int(&w, "rank", s->rank);
    dt_json_put_text(&w, "stream", stream_name(s));
    dt_json_put_text(&w, "text", dt_buf_cstr(&s->line));
    dt_json_put_end(&w);
}

/* The line is whole, or as long as one may be. */
static void put_line(const struct dt_logbook *b, struct dt_logbook_stream *s, struct dt_buf *out)
{
    struct dt_buf *to = b->sort ? &s->lines : out;
    if (b->json)
        put_json_line(s, to);
    else
        put_text_line(b->prefix, s, to);
    dt_buf_put_u8(to, '\n');
    dt_buf_clear(&s->line);
}

/* How much of TEXT goes into a line that has room for ROOM bytes: whole characters, of which the
 * longest have 4 bytes. What is no UTF-8 is cut anywhere, or it would never come to an end. */
static size_t part_of(const char *text, size_t room)
{
    size_t part = room;
    while (part > 0 && room - part < 3 && ((unsigned char)text[part] & 0xc0) == 0x80)
        part--;
    return part;
}

static void put_text(const struct dt_logbook *b, struct dt_logbook_stream *s, const char *text,
                     struct dt_buf *out)
{
    if (s->after_cr && *text == '\n')
        text++;
    s->after_cr = false;
    while (*text) {
        size_t len = strcspn(text, "\r\n"), room = DT_LOGBOOK_LINE - s->line.len;
        if (len >= room) {
            size_t part = part_of(text, room);
            dt_buf_put(&s->line, text, part);
            put_line(b, s, out);
            text += part;
            continue;
        }
        dt_buf_put(&s->line, text, len);
        text += len;
        if (!*text)
            return;
        put_line(b, s, out);
        s->after_cr = *text == '\r' && !text[1];
        text += text[0] == '\r' && text[1] == '\n' ? 2 : 1;
    }
}

static void end_line(const struct dt_logbook *b, struct dt_logbook_stream *s, struct dt_buf *out)
{
    if (s->line.len > 0)
        put_line(b, s, out);
}

/* -- pieces ----------------------------------------------------------------------------------- */

static void note_gap(const struct dt_logbook_stream *s, int64_t missing, struct dt_buf *notes)
{
    dt_buf_printf(notes, "rank %" PRId64 ": %" PRId64 " bytes of its %s are left out here\n",
                  s->rank, missing, stream_name(s));
}

/* Once for each node and place. */
static void note_inherited(struct dt_logbook *b, const char *node, const char *path,
                           struct dt_buf *notes)
{
    struct dt_buf words = {0};
    dt_buf_printf(&words,
                  "%s: workers write to %s themselves (--inherit-streams), so nothing of it is "
                  "kept here\n",
                  node, *path ? path : "where dtrun's own output goes");
    if (!strstr(dt_buf_cstr(&b->inherited), dt_buf_cstr(&words))) {
        dt_buf_put_str(notes, dt_buf_cstr(&words));
        dt_buf_put_str(&b->inherited, dt_buf_cstr(&words));
    }
    dt_buf_finish(&words);
}

/* Whether each U+FFFD of P's text stands for one byte that is no UTF-8: then the text is longer
 * than the bytes by two for each. Else the worker has written them itself. */
static bool stands_for_bytes(const struct piece *p)
{
    size_t count = 0;
    for (const char *at = p->text; (at = strstr(at, STAND_IN)); at += strlen(STAND_IN))
        count++;
    return strlen(p->text) == (uint64_t)(p->next - p->at) + 2 * count;
}

/* P's text behind its first KNOWN bytes. */
static const char *text_behind(const struct piece *p, int64_t known)
{
    bool shorter = known > 0 && stands_for_bytes(p);
    const char *at = p->text, *end = at + strlen(at);
    while (at < end && known > 0) {
        size_t len = dt_utf8_len((const uint8_t *)at, (size_t)(end - at));
        bool one = len == 0 || (shorter && strncmp(at, STAND_IN, len) == 0);
        known -= one ? 1 : (int64_t)len;
        at += len ? len : 1;
    }
    return at;
}

/* The part of P that is new: a worker that is started anew begins another stream, and a question
 * that was asked again is answered with what is known already. */
static void take_text(struct dt_logbook *b, struct dt_logbook_stream *s, const struct piece *p,
                      struct dt_buf *out, struct dt_buf *notes)
{
    if (p->since < s->since || (p->since == s->since && p->next <= s->next))
        return;
    if (p->since > s->since) {
        end_line(b, s, out);
        s->since = p->since;
        s->next = p->at;
        s->after_cr = false;
    } else if (p->at > s->next) {
        end_line(b, s, out);
        note_gap(s, p->at - s->next, notes);
    }
    snprintf(s->node, sizeof s->node, "%s", p->node);
    snprintf(s->role, sizeof s->role, "%s", p->role);
    s->round = p->round;
    const char *text = text_behind(p, s->next - p->at);
    s->next = p->next;
    put_text(b, s, text, out);
    if (p->open)
        end_line(b, s, out);
}

static int read_piece(const struct dt_json *doc, const struct cJSON *from, struct piece *p,
                      struct dt_err *err)
{
    if (dt_json_int(doc, from, "rank", 0, INT_MAX, &p->rank, err) < 0 ||
        dt_json_int(doc, from, "since", 0, NUMBER_MAX, &p->since, err) < 0 ||
        (dt_json_has(from, "stderr") && dt_json_bool(doc, from, "stderr", &p->err, err) < 0) ||
        (dt_json_has(from, "open") && dt_json_bool(doc, from, "open", &p->open, err) < 0))
        return -1;
    if (dt_json_has(from, "inherited"))
        return dt_json_string(doc, from, "inherited", &p->inherited, err);
    if (dt_json_int(doc, from, "at", 0, NUMBER_MAX, &p->at, err) < 0 ||
        dt_json_int(doc, from, "next", p->at, NUMBER_MAX, &p->next, err) < 0)
        return -1;
    return dt_json_string(doc, from, "text", &p->text, err);
}

static void take_round(struct dt_logbook *b, int64_t round, struct dt_buf *notes)
{
    if (b->began && round > b->round)
        dt_buf_printf(notes, "round %" PRId64 " began: workers were started anew\n", round);
    if (!b->began || round > b->round)
        b->round = round;
    b->began = true;
}

int dt_logbook_take(struct dt_logbook *b, const struct dt_json *doc, const struct cJSON *page,
                    struct dt_buf *out, struct dt_buf *notes, struct dt_err *err)
{
    const struct cJSON *told, *pieces;
    struct piece of_page = {0};
    if (dt_json_string(doc, page, "node", &of_page.node, err) < 0 ||
        dt_json_object(doc, page, "told", &told, err) < 0 ||
        dt_json_string(doc, told, "role", &of_page.role, err) < 0 ||
        dt_json_int(doc, told, "round", -1, INT_MAX, &of_page.round, err) < 0 ||
        dt_json_array(doc, told, "pieces", &pieces, err) < 0)
        return -1;
    take_round(b, of_page.round, notes);
    for (const struct cJSON *at = dt_json_first(pieces); at; at = dt_json_next(at)) {
        struct piece p = of_page;
        if (read_piece(doc, at, &p, err) < 0)
            return -1;
        if (p.inherited) {
            note_inherited(b, p.node, p.inherited, notes);
            continue;
        }
        struct dt_logbook_stream *s = stream_of(b, &p);
        if (!s)
            return dt_err_set(err, DT_E_MEMORY, "no memory for what workers print");
        take_text(b, s, &p, out, notes);
    }
    return 0;
}

void dt_logbook_end(struct dt_logbook *b, struct dt_buf *out)
{
    for (size_t i = 0; i < b->len; i++) {
        struct dt_logbook_stream *s = &b->streams[i];
        end_line(b, s, out);
        dt_buf_put(out, s->lines.at, s->lines.len);
        out->bad = out->bad || s->lines.bad || s->line.bad;
        dt_buf_clear(&s->lines);
    }
}

void dt_logbook_finish(struct dt_logbook *b)
{
    for (size_t i = 0; i < b->len; i++) {
        dt_buf_finish(&b->streams[i].line);
        dt_buf_finish(&b->streams[i].lines);
    }
    free(b->streams);
    dt_buf_finish(&b->inherited);
    *b = (struct dt_logbook){0};
}
