/* SPDX-License-Identifier: Apache-2.0 */
#include "rendezvous/protocol/rank_set.h"

#include "base/str.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

/* "3" or "8-15", LEN bytes at TEXT. */
static bool read_range(const char *text, size_t len, struct dt_rank_range *out)
{
    char word[32];
    int64_t first, last;
    if (len >= sizeof word)
        return false;
    snprintf(word, sizeof word, "%.*s", (int)len, text);
    char *dash = strchr(word, '-');
    if (dash)
        *dash = '\0';
    if (dt_str_to_int(word, 0, INT_MAX, &first, NULL) < 0 ||
        dt_str_to_int(dash ? dash + 1 : word, first, INT_MAX, &last, NULL) < 0)
        return false;
    *out = (struct dt_rank_range){(int)first, (int)last};
    return true;
}

int dt_rank_set_read(const char *text, struct dt_rank_set *out, struct dt_err *err)
{
    char shown[64];
    out->len = 0;
    if (!*text)
        return 0;
    for (const char *at = text;; at++) {
        size_t len = strcspn(at, ",");
        if (out->len == DT_RANK_SET_MAX)
            return dt_err_set(err, DT_E_PROTOCOL, "more than %d ranges of ranks", DT_RANK_SET_MAX);
        if (!read_range(at, len, &out->at[out->len++]))
            return dt_err_set(err, DT_E_PROTOCOL, "\"%s\" are no ranks",
                              dt_str_printable(dt_bytes_of(text), shown, sizeof shown));
        at += len;
        if (!*at)
            return 0;
    }
}

void dt_rank_set_put(const struct dt_rank_set *s, struct dt_buf *out)
{
    for (size_t i = 0; i < s->len; i++) {
        dt_buf_printf(out, "%s%d", i ? "," : "", s->at[i].first);
        if (s->at[i].last > s->at[i].first)
            dt_buf_printf(out, "-%d", s->at[i].last);
    }
}

bool dt_rank_set_has(const struct dt_rank_set *s, int first, int last)
{
    for (size_t i = 0; i < s->len; i++)
        if (s->at[i].first <= last && s->at[i].last >= first)
            return true;
    return s->len == 0;
}
