/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/bind/cpuset.h"

#include <string.h>

#define WORDS (DT_CPUSET_MAX / DT_CPUSET_WORD)

void dt_cpuset_add(struct dt_cpuset *s, unsigned n)
{
    if (n < DT_CPUSET_MAX)
        s->words[n / DT_CPUSET_WORD] |= 1ul << n % DT_CPUSET_WORD;
}

bool dt_cpuset_has(const struct dt_cpuset *s, unsigned n)
{
    return n < DT_CPUSET_MAX && (s->words[n / DT_CPUSET_WORD] >> n % DT_CPUSET_WORD & 1);
}

void dt_cpuset_fill(struct dt_cpuset *s)
{
    memset(s, 0xff, sizeof *s);
}

struct dt_cpuset dt_cpuset_and(const struct dt_cpuset *a, const struct dt_cpuset *b)
{
    struct dt_cpuset both;
    for (size_t i = 0; i < WORDS; i++)
        both.words[i] = a->words[i] & b->words[i];
    return both;
}

void dt_cpuset_join(struct dt_cpuset *s, const struct dt_cpuset *more)
{
    for (size_t i = 0; i < WORDS; i++)
        s->words[i] |= more->words[i];
}

size_t dt_cpuset_count(const struct dt_cpuset *s)
{
    size_t n = 0;
    for (size_t i = 0; i < WORDS; i++)
        n += (size_t)__builtin_popcountl(s->words[i]);
    return n;
}

bool dt_cpuset_empty(const struct dt_cpuset *s)
{
    return dt_cpuset_next(s, 0) < 0;
}

bool dt_cpuset_equal(const struct dt_cpuset *a, const struct dt_cpuset *b)
{
    return memcmp(a, b, sizeof *a) == 0;
}

int dt_cpuset_next(const struct dt_cpuset *s, int from)
{
    for (unsigned n = (unsigned)from; n < DT_CPUSET_MAX;) {
        unsigned long rest = s->words[n / DT_CPUSET_WORD] >> n % DT_CPUSET_WORD;
        if (rest)
            return (int)n + __builtin_ctzl(rest);
        n += DT_CPUSET_WORD - n % DT_CPUSET_WORD;
    }
    return -1;
}

void dt_cpuset_put(const struct dt_cpuset *s, struct dt_buf *out)
{
    const char *comma = "";
    for (int first = dt_cpuset_next(s, 0); first >= 0;) {
        int last = first;
        while (dt_cpuset_has(s, (unsigned)last + 1))
            last++;
        dt_buf_printf(out, last > first ? "%s%d-%d" : "%s%d", comma, first, last);
        comma = ",";
        first = dt_cpuset_next(s, last + 1);
    }
}
