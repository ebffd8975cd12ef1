/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/failure/traceback.h"

#include "base/str.h"

#include <stdio.h>

#define HEAD "Traceback (most recent call last):"
#define INNERMOST_FIRST "(most recent call first):"
#define FRAME "File \""
#define LINE "\", line "

struct dt_bytes dt_traceback_line(struct dt_bytes *text)
{
    const uint8_t *nl = memchr(text->at, '\n', text->len);
    struct dt_bytes line = {text->at, nl ? (size_t)(nl - text->at) : text->len};
    size_t used = line.len + (nl != NULL);
    text->at += used;
    text->len -= used;
    return line;
}

static struct dt_bytes behind(struct dt_bytes b, size_t n)
{
    return (struct dt_bytes){b.at + n, b.len - n};
}

static bool starts(struct dt_bytes b, const char *with)
{
    size_t n = strlen(with);
    return b.len >= n && memcmp(b.at, with, n) == 0;
}

struct dt_bytes dt_traceback_bare(struct dt_bytes line)
{
    size_t n = strlen("[rank");
    if (!starts(line, "[rank"))
        return line;
    while (n < line.len && line.at[n] >= '0' && line.at[n] <= '9')
        n++;
    if (!starts(behind(line, n), "]:"))
        return line;
    n += strlen("]:");
    return behind(line, n + (n < line.len && line.at[n] == ' '));
}

/* Whole lines from the one on in which the last traceback begins: "[rank0]: " may be in front. */
struct dt_bytes dt_traceback_in(struct dt_bytes text)
{
    size_t n = strlen(HEAD);
    for (size_t at = text.len >= n ? text.len - n + 1 : 0; at-- > 0;) {
        if (memcmp(text.at + at, HEAD, n) != 0)
            continue;
        while (at > 0 && text.at[at - 1] != '\n')
            at--;
        return behind(text, at);
    }
    return (struct dt_bytes){0};
}

/* -- frames ----------------------------------------------------------------------------------- */

struct frame {
    struct dt_bytes path;
    int line;
};

static size_t indent_of(struct dt_bytes line)
{
    size_t n = 0;
    while (n < line.len && line.at[n] == ' ')
        n++;
    return n;
}

/* `  File "/home/me/train.py", line 88, in main` */
static bool read_frame(struct dt_bytes line, struct frame *out)
{
    struct dt_bytes rest = behind(line, indent_of(line));
    if (!starts(rest, FRAME))
        return false;
    rest = behind(rest, strlen(FRAME));
    const uint8_t *end = memmem(rest.at, rest.len, LINE, strlen(LINE));
    if (!end)
        return false;
    *out = (struct frame){.path = {rest.at, (size_t)(end - rest.at)}};
    rest = behind(rest, out->path.len + strlen(LINE));
    for (size_t i = 0; i < rest.len && i < 8 && rest.at[i] >= '0' && rest.at[i] <= '9'; i++)
        out->line = out->line * 10 + (rest.at[i] - '0');
    return out->line > 0;
}

static bool holds(struct dt_bytes b, const char *words)
{
    return memmem(b.at, b.len, words, strlen(words)) != NULL;
}

static bool is_users(const struct frame *f)
{
    return !starts(f->path, "<") && !holds(f->path, "/site-packages/") &&
           !holds(f->path, "/dist-packages/") && !holds(f->path, "/lib/python3");
}

/* The name of the file alone: the whole path stands in the traceback. */
static void put_place(const struct frame *f, char out[DT_PLACE_MAX])
{
    char name[DT_PLACE_MAX - 16];
    size_t from = f->path.len;
    while (from > 0 && f->path.at[from - 1] != '/')
        from--;
    if (from < f->path.len)
        snprintf(out, DT_PLACE_MAX, "%s:%d",
                 dt_str_printable(behind(f->path, from), name, sizeof name), f->line);
}

/* What is seen of the frames so far: of the user's own, and of any, the one that counts. */
struct frames {
    struct frame own, any;
    bool innermost_first;
};

static void note_frame(struct frames *s, const struct frame *f)
{
    if (!s->any.line || !s->innermost_first)
        s->any = *f;
    if (is_users(f) && (!s->own.line || !s->innermost_first))
        s->own = *f;
}

static void put_frames(const struct frames *s, char out[DT_PLACE_MAX])
{
    out[0] = '\0';
    if (s->any.line)
        put_place(s->own.line ? &s->own : &s->any, out);
}

/* -- tracebacks ------------------------------------------------------------------------------- */

/* Source lines and marks stand deeper than the frames, which stand two deeper than the exception:
 * in a report all of it is moved to the right. */
bool dt_traceback_read(struct dt_bytes text, struct dt_traceback *out)
{
    struct dt_bytes rest = dt_traceback_in(text);
    struct frames seen = {0};
    size_t depth = 0;
    *out = (struct dt_traceback){0};
    if (rest.len == 0)
        return false;
    dt_traceback_line(&rest);
    while (rest.len) {
        struct frame f;
        struct dt_bytes line = dt_traceback_bare(dt_traceback_line(&rest));
        size_t indent = indent_of(line);
        if (read_frame(line, &f)) {
            if (!seen.any.line)
                depth = indent >= 2 ? indent - 2 : 0;
            note_frame(&seen, &f);
        } else if (line.len > indent && indent <= depth) {
            out->exception = behind(line, indent);
            out->rest = rest;
            put_frames(&seen, out->place);
            return true;
        }
    }
    return false;
}

void dt_traceback_place(struct dt_bytes text, char out[DT_PLACE_MAX])
{
    struct frames seen = {0};
    while (text.len) {
        struct frame f;
        struct dt_bytes line = dt_traceback_bare(dt_traceback_line(&text));
        if (holds(line, INNERMOST_FIRST) && !(seen.innermost_first && seen.any.line))
            seen = (struct frames){.innermost_first = true};
        else if (read_frame(line, &f))
            note_frame(&seen, &f);
    }
    put_frames(&seen, out);
}
