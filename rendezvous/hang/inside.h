/* SPDX-License-Identifier: Apache-2.0 */
/* What judging and wording share; nobody else includes it. */
#ifndef DT_RENDEZVOUS_HANG_INSIDE_H
#define DT_RENDEZVOUS_HANG_INSIDE_H

#include "rendezvous/hang/judge.h"

/* A camp is a group of those who do alike; its KEYS, OBJECT and DETAIL are those that all of it
 * share.
 * Ranks that nobody told of are UNKNOWN. */
struct hang_view {
    const struct dt_stances *stances;
    struct dt_stances camps;
    int waiting, outside, unknown; /* ranks */
};

/* The camps that the sentence names first. */
struct hang_sides {
    const struct dt_stance_group *culprit, *others; /* NULL: none */
    int should_set;                                 /* the key: a rank; -1: none that is known */
    bool not_there; /* the key is of a rank that the job does not have */
};

/* The first stance of that camp; -1: nobody told of it, or CAMP is NULL. */
int hang_index_of(const struct hang_view *v, const struct dt_stance_group *camp);

/* -- sentence.c: the finding in words --------------------------------------------------------- */

void hang_put_sentence(const struct hang_view *v, const struct hang_sides *sides,
                       enum dt_hang_class class, dt_ms still, char *out, size_t size);
const char *hang_advice(enum dt_hang_class class);

#endif
