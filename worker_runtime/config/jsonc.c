/* SPDX-License-Identifier: Apache-2.0 */
/* What people write beside JSON becomes white space in place: the parser behind sees JSON, and the
 * lines and columns in its errors are those of the file. */
#include "worker_runtime/config/config.h"

#include <string.h>

struct strip {
    char *text;
    size_t len, at;
    size_t comma; /* where it is, when a comma behind a value is the last thing seen; else LEN */
    char last;    /* that was seen, but white space */
};

static int unended(const struct strip *s, size_t from, struct dt_err *err)
{
    size_t line = 1;
    for (size_t i = 0; i < from; i++)
        line += s->text[i] == '\n';
    return dt_err_set(err, DT_E_USAGE, "line %zu: the comment that begins here has no end", line);
}

static bool stands(const struct strip *s, char a, char b)
{
    return s->len - s->at >= 2 && s->text[s->at] == a && s->text[s->at + 1] == b;
}

static void blank(struct strip *s)
{
    char *c = &s->text[s->at++];
    if (*c != '\n' && *c != '\r')
        *c = ' ';
}

static void blank_line(struct strip *s)
{
    while (s->at < s->len && s->text[s->at] != '\n')
        blank(s);
}

static int blank_block(struct strip *s, struct dt_err *err)
{
    size_t from = s->at;
    blank(s);
    blank(s);
    while (s->at < s->len && !stands(s, '*', '/'))
        blank(s);
    if (s->at == s->len)
        return unended(s, from, err);
    blank(s);
    blank(s);
    return 0;
}

/* Slashes and commas in a string are the string's. One without an end is the parser's to refuse. */
static void skip_string(struct strip *s)
{
    s->at++;
    while (s->at < s->len && s->text[s->at] != '"')
        s->at += s->text[s->at] == '\\' && s->at + 1 < s->len ? 2 : 1;
    if (s->at < s->len)
        s->at++;
}

static void take_one(struct strip *s)
{
    char c = s->text[s->at];
    if (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
        s->at++;
        return;
    }
    if ((c == '}' || c == ']') && s->comma < s->len)
        s->text[s->comma] = ' ';
    bool behind_value = s->last && !strchr("{[,:", s->last);
    s->comma = c == ',' && behind_value ? s->at : s->len;
    s->last = c;
    if (c == '"')
        skip_string(s);
    else
        s->at++;
}

int dt_jsonc_strip(char *text, size_t len, struct dt_err *err)
{
    struct strip s = {.text = text, .len = len, .comma = len};
    while (s.at < s.len) {
        if (stands(&s, '/', '/'))
            blank_line(&s);
        else if (!stands(&s, '/', '*'))
            take_one(&s);
        else if (blank_block(&s, err) < 0)
            return -1;
    }
    return 0;
}
