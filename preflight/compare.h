/* SPDX-License-Identifier: Apache-2.0 */
/* What the nodes of a job have different, in the words of one of them. Pure. */
#ifndef DT_PREFLIGHT_COMPARE_H
#define DT_PREFLIGHT_COMPARE_H

#include "preflight/sheet.h"

#include <stdint.h>

#define DT_COMPARE_NAME 64
/* Half a second: which of two nodes failed first cannot be told any more. */
#define DT_CLOCKS_APART_US 500000

/* What a node knows of another, or of itself. */
struct dt_compared {
    char name[DT_COMPARE_NAME];
    struct dt_sheet *sheet; /* its traits */
    enum dt_grade worst;    /* of what it found, also between the nodes */
    bool reached;           /* what follows was measured */
    int64_t offset_us;      /* how far its clock is ahead of ours */
    int64_t trip_us;        /* there and back, the shortest of a few */
    double rate;            /* bytes a second from here to there; 0: not measured */
};

/* A remark for each trait that is not the same on all COUNT nodes. */
void dt_compare_traits(const struct dt_compared *nodes, size_t count, struct dt_sheet *out);

/* That another node than NODES[OWN] found something bad, and which. So the worst of all is that of
 * each. */
void dt_compare_grades(const struct dt_compared *nodes, size_t count, size_t own,
                       struct dt_sheet *out);

/* Clocks that are apart by more than what spoils a comparison of logs. NODES[OWN] is this one. */
void dt_compare_clocks(const struct dt_compared *nodes, size_t count, size_t own,
                       struct dt_sheet *out);

/* Links of two nodes, measured by one of them. */
struct dt_pair {
    char from[DT_COMPARE_NAME], to[DT_COMPARE_NAME];
    double rate; /* bytes a second; 0: not measured */
};

/* Pairs whose link carries less than half of what the middle one does. */
void dt_compare_pairs(const struct dt_pair *pairs, size_t count, struct dt_sheet *out);

#endif
