/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_runtime/config/yaml_scalar.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdlib.h>

#define NUMBER_MAX 64 /* characters of one */

static bool is_space(char c)
{
    return c == ' ' || c == '\t';
}

void dt_yaml_skip(struct dt_yaml_piece *p)
{
    while (p->at < p->end && is_space(*p->at))
        p->at++;
}

/* -- in quotes -------------------------------------------------------------------------------- */

static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static void put_code(struct dt_buf *out, unsigned code)
{
    if (code < 0x80) {
        dt_buf_put_u8(out, (uint8_t)code);
        return;
    }
    if (code < 0x800) {
        dt_buf_put_u8(out, (uint8_t)(0xc0 | code >> 6));
    } else if (code < 0x10000) {
        dt_buf_put_u8(out, (uint8_t)(0xe0 | code >> 12));
        dt_buf_put_u8(out, (uint8_t)(0x80 | (code >> 6 & 0x3f)));
    } else {
        dt_buf_put_u8(out, (uint8_t)(0xf0 | code >> 18));
        dt_buf_put_u8(out, (uint8_t)(0x80 | (code >> 12 & 0x3f)));
        dt_buf_put_u8(out, (uint8_t)(0x80 | (code >> 6 & 0x3f)));
    }
    dt_buf_put_u8(out, (uint8_t)(0x80 | (code & 0x3f)));
}

/* DIGITS of them, behind \x, \u or \U. */
static const char *put_hex(struct dt_yaml_piece *p, int digits, struct dt_buf *out)
{
    unsigned code = 0;
    for (int i = 0; i < digits; i++, p->at++) {
        int v = p->at < p->end ? hex_value(*p->at) : -1;
        if (v < 0)
            return "an escape without its hexadecimal digits";
        code = code << 4 | (unsigned)v;
    }
    if (code == 0 || code > 0x10ffff || (code >= 0xd800 && code < 0xe000))
        return "an escape that stands for no character";
    put_code(out, code);
    return NULL;
}

/* Behind the backslash. */
static const char *put_escape(struct dt_yaml_piece *p, struct dt_buf *out)
{
    static const char from[] = "abtnvfre\"\\/ ", to[] = "\a\b\t\n\v\f\r\x1b\"\\/ ";
    char c = p->at < p->end ? *p->at++ : '\0';
    const char *found = c ? strchr(from, c) : NULL;
    if (found) {
        dt_buf_put_u8(out, (uint8_t)to[found - from]);
        return NULL;
    }
    if (c == 'x' || c == 'u' || c == 'U')
        return put_hex(p, c == 'x' ? 2 : c == 'u' ? 4 : 8, out);
    return "a backslash in double quotes, and no escape behind it; in single quotes it is itself";
}

const char *dt_yaml_quoted(struct dt_yaml_piece *p, struct dt_buf *text)
{
    char quote = *p->at++;
    while (p->at < p->end) {
        char c = *p->at++;
        if (c == quote && quote == '\'' && p->at < p->end && *p->at == '\'') {
            p->at++; /* two of them stand for one */
        } else if (c == quote) {
            return NULL;
        } else if (c == '\\' && quote == '"') {
            const char *why = put_escape(p, text);
            if (why)
                return why;
            continue;
        }
        dt_buf_put_u8(text, (uint8_t)c);
    }
    return "a quote that does not end on its line";
}

/* -- plain ------------------------------------------------------------------------------------ */

/* What begins with it means something in YAML that is not done here, or nothing. */
static const char *foreign(struct dt_yaml_piece p)
{
    static const struct {
        char begin;
        const char *why;
    } rows[] = {
        {'&', "an anchor; write the value itself"},
        {'*', "an alias; write the value itself"},
        {'!', "a tag; write the value alone"},
        {'|', "a text of several lines; write it on one, in double quotes, with \\n"},
        {'>', "a text of several lines; write it on one, in double quotes"},
        {'%', "a value that begins with %; write it in quotes"},
        {'@', "a value that begins with @; write it in quotes"},
        {'`', "a value that begins with `; write it in quotes"},
        {',', "a value is missing in front of a comma"},
        {']', "] without a [ in front of it"},
        {'}', "} without a { in front of it"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (*p.at == rows[i].begin)
            return rows[i].why;
    bool single = p.end - p.at == 1 || is_space(p.at[1]);
    if (single && (*p.at == '-' || *p.at == '?'))
        return *p.at == '-' ? "an entry of a list behind a key; begin a line with it"
                            : "a key of several lines";
    return NULL;
}

/* Whether the colon at P ends a key. */
static bool ends_key(struct dt_yaml_piece p, bool in_flow)
{
    return p.end - p.at == 1 || is_space(p.at[1]) || (in_flow && strchr(",]}", p.at[1]));
}

/* Up to the colon of a key, where there is one, a comment, or what ends a value. */
static struct dt_yaml_piece take_plain(struct dt_yaml_piece *p, bool in_flow)
{
    struct dt_yaml_piece plain = {p->at, p->at};
    for (; p->at < p->end; p->at++) {
        char c = *p->at;
        if (c == '#' && p->at > plain.at && is_space(p->at[-1]))
            break;
        if ((c == ':' && ends_key(*p, in_flow)) || (in_flow && strchr(",[]{}", c)))
            break;
        if (!is_space(c))
            plain.end = p->at + 1;
    }
    return plain;
}

const char *dt_yaml_plain(struct dt_yaml_piece *p, bool in_flow, struct dt_yaml_piece *plain)
{
    const char *why = p->at < p->end ? foreign(*p) : "a value is missing at the end of the line";
    if (why)
        return why;
    *plain = take_plain(p, in_flow);
    if (p->at < p->end && *p->at == ':')
        return "a key within a value; write the value in quotes, or the key on a line of its own";
    return NULL;
}

const char *dt_yaml_key(struct dt_yaml_piece *p, struct dt_buf *key, bool in_flow)
{
    dt_yaml_skip(p);
    const char *why = p->at < p->end ? NULL : "a key is missing";
    if (!why && (*p->at == '"' || *p->at == '\'')) {
        why = dt_yaml_quoted(p, key);
        dt_yaml_skip(p);
    } else if (!why && (*p->at == '[' || *p->at == '{')) {
        why = "a list or an object where a key is expected";
    } else if (!why && !(why = foreign(*p))) {
        struct dt_yaml_piece plain = take_plain(p, in_flow);
        dt_buf_put(key, plain.at, (size_t)(plain.end - plain.at));
    }
    if (why)
        return why;
    if (p->at == p->end || *p->at != ':')
        return "expected KEY: VALUE";
    p->at++;
    return key->len || key->bad ? NULL : "a key is empty";
}

/* -- what a plain scalar is ------------------------------------------------------------------- */

static bool is_one_of(const char *text, const char *const *words)
{
    for (; *words; words++)
        if (strcmp(text, *words) == 0)
            return true;
    return false;
}

static const char *skip_digits(const char *p)
{
    while (*p >= '0' && *p <= '9')
        p++;
    return p;
}

/* Digits with a point and an exponent, in decimal. One that begins with a zero is octal to some
 * readers and decimal to others: it stays a text. */
static bool is_number(const char *text)
{
    const char *p = text + (*text == '-' || *text == '+');
    const char *whole = p, *behind = p = skip_digits(p);
    size_t digits = (size_t)(behind - whole);
    if (digits > 1 && *whole == '0')
        return false;
    if (*p == '.') {
        p = skip_digits(p + 1);
        digits += (size_t)(p - behind) - 1;
    }
    if (digits == 0)
        return false;
    if (*p == 'e' || *p == 'E') {
        p += p[1] == '-' || p[1] == '+' ? 2 : 1;
        if (*p < '0' || *p > '9')
            return false;
        p = skip_digits(p);
    }
    return *p == '\0';
}

struct cJSON *dt_yaml_resolve(struct dt_yaml_piece plain)
{
    static const char *const nulls[] = {"", "~", "null", "Null", "NULL", NULL};
    static const char *const yes[] = {"true", "True", "TRUE", "yes", "Yes",
                                      "YES",  "on",   "On",   "ON",  NULL};
    static const char *const no[] = {"false", "False", "FALSE", "no",  "No",
                                     "NO",    "off",   "Off",   "OFF", NULL};
    size_t len = (size_t)(plain.end - plain.at);
    char word[NUMBER_MAX] = "";
    if (len < sizeof word) {
        if (len)
            memcpy(word, plain.at, len);
        word[len] = '\0';
        if (is_one_of(word, nulls))
            return cJSON_CreateNull();
        if (is_one_of(word, yes) || is_one_of(word, no))
            return cJSON_CreateBool(is_one_of(word, yes));
        if (is_number(word) && isfinite(strtod(word, NULL)))
            return cJSON_CreateNumber(strtod(word, NULL));
    }
    struct dt_buf text = {0};
    dt_buf_put(&text, plain.at, len);
    struct cJSON *v = text.bad ? NULL : cJSON_CreateString(dt_buf_cstr(&text));
    dt_buf_finish(&text);
    return v;
}
