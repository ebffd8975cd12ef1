/* SPDX-License-Identifier: Apache-2.0 */
/* Sets of processors for tests, written as the kernel lists them: cpus("0-3,8"). */
#ifndef DT_TESTS_CPUS_H
#define DT_TESTS_CPUS_H

#include "agent/bind/cpuset.h"
#include "tests/lib/check.h"

static inline struct dt_cpuset cpus(const char *list)
{
    struct dt_cpuset s = {0};
    for (char *at = (char *)(uintptr_t)list; *at; at += *at == ',') {
        unsigned long first = strtoul(at, &at, 10), last = first;
        if (*at == '-')
            last = strtoul(at + 1, &at, 10);
        CHECK(first <= last && last < DT_CPUSET_MAX && (*at == ',' || *at == '\0'));
        for (unsigned long n = first; n <= last; n++)
            dt_cpuset_add(&s, (unsigned)n);
    }
    return s;
}

#endif
