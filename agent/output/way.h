/* SPDX-License-Identifier: Apache-2.0 */
/* Which way a worker's stream goes: what the options of output come to, together. Pure. */
#ifndef DT_AGENT_OUTPUT_WAY_H
#define DT_AGENT_OUTPUT_WAY_H

#include "agent/plan.h"

#include <stdbool.h>

enum dt_way {
    DT_WAY_INHERITED, /* the worker has our own descriptor */
    DT_WAY_RELAYED,   /* looks inherited: through us, unchanged, onto the console unless hidden */
    DT_WAY_FILE,      /* the worker has the file itself */
    DT_WAY_TEED       /* through us, into the file and, unless hidden, in lines onto the console */
};

/* STREAM: DT_STDOUT or DT_STDERR. FILES: this attempt has a folder. */
enum dt_way dt_way_of(const struct dt_plan *plan, bool files, int local_rank, unsigned stream);

/* The filters of that stream; NULL: it has none. */
char *const *dt_way_filters(const struct dt_plan *plan, unsigned stream);

/* stdout and stderr go as one stream, in their order, as ours are one (ONE_CONSOLE). */
bool dt_way_shared(const struct dt_plan *plan, bool files, int local_rank, bool one_console);

#endif
