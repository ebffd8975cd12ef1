/* SPDX-License-Identifier: Apache-2.0 */
/* A name is a head, a number and a tail; names whose heads and tails are equal share brackets. The
 * number is the last one before the first dot, as what stands behind it is the domain; in an IPv4
 * address it is the last of all. A number written with leading zeros goes only with those of its
 * length. */
#include "ctl/fold.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define NUMBER_DIGITS 18 /* that fit an int64_t */

struct parts {
    const char *name;
    size_t head, digits; /* bytes; digits 0: there is no number */
    int64_t number;
};

static struct parts split(const char *name)
{
    bool address = name[strspn(name, "0123456789.")] == '\0';
    size_t end = address ? strlen(name) : strcspn(name, ".");
    while (end > 0 && !isdigit((unsigned char)name[end - 1]))
        end--;
    size_t begin = end;
    while (begin > 0 && isdigit((unsigned char)name[begin - 1]))
        begin--;
    struct parts p = {.name = name, .head = begin, .digits = end - begin};
    if (p.digits > NUMBER_DIGITS)
        p.digits = 0;
    for (size_t i = 0; i < p.digits; i++)
        p.number = p.number * 10 + (name[begin + i] - '0');
    return p;
}

static bool is_padded(const struct parts *p)
{
    return p->digits > 1 && p->name[p->head] == '0';
}

static bool share_brackets(const struct parts *a, const struct parts *b)
{
    if (a->digits == 0 || b->digits == 0 || a->head != b->head ||
        memcmp(a->name, b->name, a->head) != 0 ||
        strcmp(a->name + a->head + a->digits, b->name + b->head + b->digits) != 0)
        return false;
    return a->digits == b->digits || (!is_padded(a) && !is_padded(b));
}

static void put_number(struct dt_buf *out, const struct parts *p)
{
    dt_buf_put(out, p->name + p->head, p->digits);
}

/* The COUNT names from NAMES on, in one pair of brackets. */
static void put_bracketed(struct dt_buf *out, const char *const *names, size_t count)
{
    struct parts first = split(names[0]);
    dt_buf_put(out, first.name, first.head);
    dt_buf_put_u8(out, '[');
    for (size_t i = 0; i < count;) {
        struct parts from = split(names[i]), to = from;
        for (i++; i < count; i++) {
            struct parts next = split(names[i]);
            if (next.number != to.number + 1)
                break;
            to = next;
        }
        put_number(out, &from);
        if (to.number > from.number) {
            dt_buf_put_u8(out, '-');
            put_number(out, &to);
        }
        if (i < count)
            dt_buf_put_u8(out, ',');
    }
    dt_buf_put_u8(out, ']');
    dt_buf_put_str(out, first.name + first.head + first.digits);
}

static int by_version(const void *a, const void *b)
{
    return strverscmp(*(const char *const *)a, *(const char *const *)b);
}

void dt_ctl_fold(const char **names, size_t count, struct dt_buf *out)
{
    if (count)
        qsort(names, count, sizeof *names, by_version);
    for (size_t i = 0, n; i < count; i += n) {
        struct parts first = split(names[i]);
        for (n = 1; i + n < count; n++) {
            struct parts next = split(names[i + n]);
            if (!share_brackets(&first, &next))
                break;
        }
        if (i)
            dt_buf_put_u8(out, ',');
        if (n > 1)
            put_bracketed(out, names + i, n);
        else
            dt_buf_put_str(out, names[i]);
    }
}
