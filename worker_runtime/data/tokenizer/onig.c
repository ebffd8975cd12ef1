/* SPDX-License-Identifier: Apache-2.0 */
/* What both understand alike goes through; the list of that is short and closed. Three things are
 * rewritten:
 *
 *     \s      PCRE2 takes U+180E for white space, and Oniguruma does not
 *     \p{L}   PCRE2 10.42 has the tables of Unicode 14: what Unicode 16 added stands beside it
 *     \uHHHH  is \x{HHHH}
 */
#include "worker_runtime/data/tokenizer/onig.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of the standard's White_Space, inside brackets. */
#define SPACE                                                                                      \
    "\\x09-\\x0d\\x20\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}"        \
    "\\x{205f}\\x{3000}"

struct property {
    const char *name, *added; /* by Unicode 15 and 16, inside brackets */
};

static const struct property properties[] = {
#include "worker_runtime/data/tokenizer/unicode_added.inc"
};

struct translation {
    const char *at; /* what is left */
    struct dt_buf *out;
    bool in_class;
    bool dash; /* the last thing in this class was a '-' that may make a range */
    struct dt_err *err;
};

static int refuse(struct translation *t, const char *what, size_t len)
{
    return dt_err_set(t->err, DT_E_USAGE,
                      "its pattern has \"%.*s\", which PCRE2 does not read as Oniguruma does",
                      (int)len, what);
}

/* A class of characters: SET is what stands inside brackets. */
static int put_set(struct translation *t, const char *name, const char *added, bool negated)
{
    if (t->in_class && (negated || t->dash))
        return dt_err_set(t->err, DT_E_USAGE,
                          "its pattern has %s%s inside brackets, which is not translated",
                          t->dash ? "a range that ends with " : "the negation of ", name);
    if (!t->in_class)
        dt_buf_put_str(t->out, negated ? "[^" : "[");
    dt_buf_put_str(t->out, name);
    dt_buf_put_str(t->out, added);
    if (!t->in_class)
        dt_buf_put_u8(t->out, ']');
    else if (t->at[0] == '-' && t->at[1] != ']') /* not a range from the last one of the set */
        dt_buf_put_u8(t->out, '\\');
    return 0;
}

static int put_known_property(struct translation *t, const struct property *p, bool negated)
{
    char set[16];
    snprintf(set, sizeof set, "\\p{%s}", p->name);
    return put_set(t, set, p->added, negated);
}

static const struct property *find_property(const char *name, size_t len)
{
    for (size_t i = 0; i < sizeof properties / sizeof *properties; i++)
        if (strlen(properties[i].name) == len && memcmp(properties[i].name, name, len) == 0)
            return &properties[i];
    return NULL;
}

/* Behind "\p" or "\P": "{NAME}" or "{^NAME}". */
static int put_property(struct translation *t, bool negated)
{
    const char *start = t->at, *close = strchr(t->at, '}');
    if (*t->at != '{' || !close)
        return refuse(t, "\\p", 2);
    t->at++;
    if (*t->at == '^') {
        negated = !negated;
        t->at++;
    }
    const struct property *p = find_property(t->at, (size_t)(close - t->at));
    if (!p)
        return refuse(t, start - 2, (size_t)(close + 1 - start) + 2);
    t->at = close + 1;
    return put_known_property(t, p, negated);
}

/* Behind "\x" or "\u": a code point in hexadecimal, which "\x" may have in braces. */
static int put_code_point(struct translation *t, bool braces, size_t digits)
{
    const char *start = t->at - 2;
    char *end;
    char hex[9] = "";
    if (braces) {
        t->at++;
        digits = strcspn(t->at, "}");
    }
    if (digits == 0 || digits >= sizeof hex || strspn(t->at, "0123456789abcdefABCDEF") < digits)
        return refuse(t, start, 2);
    memcpy(hex, t->at, digits);
    t->at += digits + braces;
    dt_buf_printf(t->out, "\\x{%lx}", strtoul(hex, &end, 16));
    return 0;
}

static int put_escape(struct translation *t)
{
    char c = t->at[1];
    if (c == '\0')
        return refuse(t, t->at, 1);
    t->at += 2;
    switch (c) {
    case 's':
    case 'S':
        return put_set(t, "", SPACE, c == 'S');
    case 'd':
        return put_known_property(t, find_property("Nd", 2), false);
    case 'p':
    case 'P':
        return put_property(t, c == 'P');
    case 'x':
        return put_code_point(t, *t->at == '{', 2);
    case 'u':
        return put_code_point(t, false, 4);
    default:
        break;
    }
    if (!strchr("rntf", c) && !ispunct((unsigned char)c))
        return refuse(t, t->at - 2, 2);
    dt_buf_put(t->out, t->at - 2, 2);
    return 0;
}

static int put_in_class(struct translation *t)
{
    const char *at = t->at;
    bool dash = *at == '-' && at[-1] != '[' && at[-1] != '^';
    if (*at == '[')
        return refuse(t, at, 1);
    if (at[0] == '&' && at[1] == '&')
        return refuse(t, at, 2);
    if (*at == '\\') {
        int rc = put_escape(t);
        t->dash = false;
        return rc;
    }
    dt_buf_put_u8(t->out, (uint8_t)*t->at++);
    t->in_class = *at != ']';
    t->dash = dash && t->in_class;
    return 0;
}

static int begin_class(struct translation *t)
{
    size_t n = t->at[1] == '^' ? 2 : 1;
    if (t->at[n] == ']')
        return refuse(t, t->at, n + 1);
    dt_buf_put(t->out, t->at, n);
    t->at += n;
    t->in_class = true;
    t->dash = false;
    return 0;
}

/* Groups that both have. Looking back is not among them: a text comes in parts, and what is behind
 * the part is gone. */
static int begin_group(struct translation *t)
{
    static const char *const known[] = {"(?:", "(?i:", "(?=", "(?!", "(?>"};
    if (t->at[1] != '?' && t->at[1] != '*') {
        dt_buf_put_u8(t->out, (uint8_t)*t->at++);
        return 0;
    }
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        size_t n = strlen(known[i]);
        if (strncmp(t->at, known[i], n) != 0)
            continue;
        dt_buf_put(t->out, t->at, n);
        t->at += n;
        return 0;
    }
    return refuse(t, t->at, 3);
}

static int put_next(struct translation *t)
{
    if (t->in_class)
        return put_in_class(t);
    switch (*t->at) {
    case '\\':
        return put_escape(t);
    case '[':
        return begin_class(t);
    case '(':
        return begin_group(t);
    case '^':
    case '$':
        return refuse(t, t->at, 1);
    case '{':
        if (t->at[1] == ',')
            return refuse(t, t->at, 2);
        break;
    case '}':
        if (t->at[1] == '+' || t->at[1] == '?') /* a second repetition there */
            return refuse(t, t->at, 2);
        break;
    default:
        break;
    }
    dt_buf_put_u8(t->out, (uint8_t)*t->at++);
    return 0;
}

int dt_onig_translate(const char *pattern, struct dt_buf *out, struct dt_err *err)
{
    struct translation t = {.at = pattern, .out = out, .err = err};
    while (*t.at)
        if (put_next(&t) < 0)
            return -1;
    return out->bad ? dt_err_set(err, DT_E_MEMORY, "no memory for a pattern") : 0;
}
