/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/output/portion.h"

#include "base/json.h"
#include "base/utf8.h"

uint64_t dt_portion_from(uint64_t end, uint64_t at, uint64_t kept)
{
    uint64_t first = end > kept ? end - kept : 0;
    return at > first && at <= end ? at : first;
}

/* Whether a line ends behind byte I. A \r that comes last may be half of a \r\n. */
static bool ends_line(struct dt_bytes b, size_t i)
{
    return b.at[i] == '\n' || (b.at[i] == '\r' && i + 1 < b.len && b.at[i + 1] != '\n');
}

size_t dt_portion_last_lines(struct dt_bytes b, int lines)
{
    size_t at = b.len;
    int ends = 0;
    if (lines == 0)
        return b.len;
    for (; at > 0; at--) {
        bool of_the_last = at == b.len; /* it begins no further one */
        if (ends_line(b, at - 1) && !of_the_last && ++ends == lines)
            break;
    }
    return at;
}

size_t dt_portion_first_line(struct dt_bytes b)
{
    size_t at = 0;
    while (at < b.len && !ends_line(b, at))
        at++;
    return at < b.len ? at + 1 : 0;
}

/* LEN, or less where a character would be torn. */
static size_t whole_characters(struct dt_bytes b, size_t len)
{
    size_t at = len;
    for (int back = 0; at > 0 && back < 4 && (b.at[at - 1] & 0xc0) == 0x80; back++)
        at--;
    if (at == 0 || (b.at[at - 1] & 0xc0) != 0xc0)
        return len;
    size_t n = dt_utf8_len(b.at + at - 1, len - at + 1);
    return n == 0 && at > 1 ? at - 1 : len;
}

size_t dt_portion_cut(struct dt_bytes b, size_t most, bool all)
{
    size_t len = b.len < most ? b.len : most;
    if (all && len == b.len)
        return len;
    for (size_t at = len; at > 0; at--)
        if (ends_line(b, at - 1))
            return at;
    return len == most || all ? whole_characters(b, len) : 0;
}

void dt_portion_quote(struct dt_buf *out, struct dt_bytes b)
{
    struct dt_buf text = {0};
    dt_buf_put(&text, b.at, b.len);
    for (size_t i = 0; !text.bad && i < text.len; i++)
        if (text.at[i] == '\0') /* which JSON could say, and no reader of ours takes */
            text.at[i] = 0xff;
    if (text.bad)
        out->bad = true;
    else
        dt_json_quote(out, (const char *)text.at, text.len);
    dt_buf_finish(&text);
}
