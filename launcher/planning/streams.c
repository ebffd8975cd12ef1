/* SPDX-License-Identifier: Apache-2.0 */
#include "launcher/planning/streams.h"

#include "base/buf.h"
#include "launcher/number.h"
#include "launcher/words.h"

#include <stdlib.h>
#include <string.h>

static bool is_mask(char c)
{
    return c >= '0' && c <= '3';
}

/* "12:3" off the front of *AT, with the comma behind it. torchrun knows local ranks of one digit
 * only; we have no reason to. */
static bool read_entry(const char **at, int64_t *rank, unsigned *mask)
{
    const char *s = *at;
    size_t n = strspn(s, "0123456789");
    if (n == 0 || n > 9 || s[n] != ':' || !is_mask(s[n + 1]))
        return false;
    char after = s[n + 2];
    if (after != '\0' && (after != ',' || s[n + 3] == '\0'))
        return false;
    *rank = strtol(s, NULL, 10);
    *mask = (unsigned)(s[n + 1] - '0');
    *at = s + n + 2 + (after == ',');
    return true;
}

int dt_streams_masks(const char *text, unsigned *masks, int nproc, int64_t *beyond,
                     struct dt_err *err)
{
    *beyond = -1;
    if (is_mask(text[0]) && text[1] == '\0') {
        for (int i = 0; i < nproc; i++)
            masks[i] = (unsigned)(text[0] - '0');
        return 0;
    }
    const char *at = text;
    int64_t rank;
    unsigned mask;
    do {
        if (!read_entry(&at, &rank, &mask))
            return dt_err_set(err, DT_E_RUNTIME,
                              "\"%s\" is neither 0, 1 (stdout), 2 (stderr) or 3 (both), nor a list "
                              "as 0:3,1:2 of what each local rank has",
                              text);
        if (rank < nproc)
            masks[rank] = mask;
        else
            *beyond = rank;
    } while (*at);
    return 0;
}

int dt_streams_ranks(const char *text, bool *shown, int nproc, struct dt_err *err)
{
    while (text) {
        char item[32];
        const char *comma = strchr(text, ',');
        size_t n = comma ? (size_t)(comma - text) : strlen(text);
        int64_t rank = 0;
        bool fits = n < sizeof item;
        if (fits) {
            memcpy(item, text, n);
            item[n] = '\0';
        }
        if (!fits || dt_number_int(item, &rank, NULL) < 0)
            return dt_err_set(err, DT_E_RUNTIME, "\"%.*s\" is no local rank; write them as 0,2,3",
                              n < 40 ? (int)n : 40, text);
        if (rank >= 0 && rank < nproc)
            shown[rank] = true;
        text = comma ? comma + 1 : NULL;
    }
    return 0;
}

int dt_streams_filters(const char *text, char ***out, struct dt_err *err)
{
    struct dt_buf one = {0};
    int rc = 0;
    for (const char *s = text; rc == 0; s++) {
        if (*s == ',' && s[1] == ',') {
            dt_buf_put_u8(&one, ',');
            s++;
        } else if (*s && *s != ',') {
            dt_buf_put_u8(&one, (uint8_t)*s);
        } else {
            if (one.bad)
                rc = dt_err_set(err, DT_E_MEMORY, "no memory for a list");
            else if (one.len)
                rc = dt_words_push(out, err, "%s", dt_buf_cstr(&one));
            dt_buf_clear(&one);
            if (!*s)
                break;
        }
    }
    dt_buf_finish(&one);
    return rc;
}
