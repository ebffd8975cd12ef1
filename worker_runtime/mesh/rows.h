/* SPDX-License-Identifier: Apache-2.0 */
/* Which rows of the stream a rank of a team has. Each has all of them; or, where the team shares
 * rows, so many of them behind each other, as many as every other, the first rank the first. Then
 * the stream, its norms, and what is kept of both is there of a rank's own rows alone, and what
 * takes all rows, as linear layers do, has room for all, in which own rows have their place.
 *
 * Without a team, or where it shares no rows, own rows are all there are, and their place is the
 * beginning. ROWS: of all of them; WIDTH: numbers of a row. */
#ifndef DT_WORKER_RUNTIME_MESH_ROWS_H
#define DT_WORKER_RUNTIME_MESH_ROWS_H

#include "worker_runtime/mesh/team.h"

struct dt_rows {
    struct dt_team *team; /* NULL: none */
    size_t rows, width;
    enum dt_dtype type;
};

static inline bool dt_rows_shared(const struct dt_rows *r)
{
    return r->team && r->team->shares_rows;
}

/* ROWS are a multiple of the team's ranks, where it shares them. */
size_t dt_rows_own(const struct dt_team *team, size_t rows);
/* Where own rows are in ALL. */
void *dt_rows_place(const struct dt_rows *r, void *all);

/* ALL becomes what all ranks have, each in its OWN. Where no rows are shared OWN is all there is,
 * and the result. */
const void *dt_rows_gather(const struct dt_rows *r, void *all, const void *own);
/* Each rank has a part of the sum of ALL: OWN, which may be its place there, becomes the whole sum
 * of own rows, and ALL is of no use then. Where no rows are shared OWN is ALL. */
void dt_rows_sum(const struct dt_rows *r, void *all, void *own);

#endif
