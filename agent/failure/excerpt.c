/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/failure/excerpt.h"

#include "agent/failure/traceback.h"

#include <stdbool.h>

#define LAST_LINES 20
/* A traceback shows where it began and what it ended with; what was between is cut. */
#define TRACE_HEAD 60
#define TRACE_TAIL 60
#define LINE_BYTES 1000
#define ESC 0x1b

/* What a terminal shows in the end of a line that was written over and over. */
static struct dt_bytes overwritten(struct dt_bytes line)
{
    while (line.len && line.at[line.len - 1] == '\r')
        line.len--;
    const uint8_t *cr = line.len ? memrchr(line.at, '\r', line.len) : NULL;
    if (cr) {
        line.len -= (size_t)(cr + 1 - line.at);
        line.at = cr + 1;
    }
    return line;
}

/* Length of the terminal code that starts with the ESC at S: CSI up to its final byte, OSC up to
 * BEL or ESC \, else two characters. */
static size_t code_len(const uint8_t *s, size_t left)
{
    size_t n = 2;
    if (left < 2)
        return left;
    if (s[1] == '[')
        while (n < left && !(s[n] >= 0x40 && s[n] <= 0x7e))
            n++;
    else if (s[1] == ']')
        while (n < left && s[n] != '\a' && !(s[n] == '\\' && s[n - 1] == ESC))
            n++;
    else
        return 2;
    return n < left ? n + 1 : left;
}

static void put_line(struct dt_bytes line, struct dt_buf *out)
{
    size_t written = 0;
    line = overwritten(line);
    for (size_t i = 0; i < line.len;) {
        uint8_t c = line.at[i];
        if (c == ESC) {
            i += code_len(line.at + i, line.len - i);
            continue;
        }
        /* Not inside a UTF-8 character, unless it is none. */
        if (written >= LINE_BYTES && ((c & 0xc0) != 0x80 || written > LINE_BYTES + 3)) {
            dt_buf_put_str(out, "...");
            return;
        }
        if ((c >= 0x20 && c != 0x7f) || c == '\t') {
            dt_buf_put_u8(out, c);
            written++;
        }
        i++;
    }
}

static bool is_space(uint8_t c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

/* The first HEAD lines and the last TAIL ones, CUT between them where lines are missing. */
static void put_lines(struct dt_bytes text, size_t head, size_t tail, const char *cut,
                      struct dt_buf *out)
{
    size_t count = 0, index = 0;
    for (struct dt_bytes rest = text; rest.len; count++)
        dt_traceback_line(&rest);
    bool all = count <= head + tail, first = true;
    for (struct dt_bytes rest = text; rest.len; index++) {
        struct dt_bytes line = dt_traceback_line(&rest);
        bool shown = all || index < head || index + tail >= count;
        if (!shown && !(cut && index == head))
            continue;
        if (!first)
            dt_buf_put_u8(out, '\n');
        first = false;
        if (shown)
            put_line(line, out);
        else
            dt_buf_put_str(out, cut);
    }
}

void dt_excerpt_put(struct dt_bytes last, struct dt_buf *out)
{
    while (last.len && is_space(last.at[last.len - 1]))
        last.len--;
    while (last.len && last.at[0] == '\n') {
        last.at++;
        last.len--;
    }
    struct dt_bytes trace = dt_traceback_in(last);
    if (trace.len)
        put_lines(trace, TRACE_HEAD, TRACE_TAIL, "...", out);
    else
        put_lines(last, 0, LAST_LINES, NULL, out);
}
