/* SPDX-License-Identifier: Apache-2.0 */
/* A set of processors, or of NUMA nodes, as the system numbers them. A plain value: copy it,
 * compare it with dt_cpuset_equal(); zeroed memory is the empty set. Its words are what the
 * kernel's calls take. Pure. */
#ifndef DT_AGENT_BIND_CPUSET_H
#define DT_AGENT_BIND_CPUSET_H

#include "base/buf.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

#define DT_CPUSET_MAX 8192 /* the most that any build of Linux counts to */
#define DT_CPUSET_WORD (CHAR_BIT * sizeof(unsigned long))

struct dt_cpuset {
    unsigned long words[DT_CPUSET_MAX / DT_CPUSET_WORD];
};

void dt_cpuset_add(struct dt_cpuset *s, unsigned n); /* beyond the maximum: nothing */
bool dt_cpuset_has(const struct dt_cpuset *s, unsigned n);
void dt_cpuset_fill(struct dt_cpuset *s); /* all there can be */

struct dt_cpuset dt_cpuset_and(const struct dt_cpuset *a, const struct dt_cpuset *b);
void dt_cpuset_join(struct dt_cpuset *s, const struct dt_cpuset *more);

size_t dt_cpuset_count(const struct dt_cpuset *s);
bool dt_cpuset_empty(const struct dt_cpuset *s);
bool dt_cpuset_equal(const struct dt_cpuset *a, const struct dt_cpuset *b);

/* The smallest member that is FROM or more; -1: none. */
int dt_cpuset_next(const struct dt_cpuset *s, int from);

/* Appends "0-3,8", as the kernel writes lists; nothing for the empty set. */
void dt_cpuset_put(const struct dt_cpuset *s, struct dt_buf *out);

#endif
