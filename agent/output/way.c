/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/output/way.h"

char *const *dt_way_filters(const struct dt_plan *plan, unsigned stream)
{
    char **filters = stream == DT_STDOUT ? plan->stdout_filters : plan->stderr_filters;
    return filters && filters[0] ? filters : NULL;
}

enum dt_way dt_way_of(const struct dt_plan *plan, bool files, int local_rank, unsigned stream)
{
    const struct dt_plan_streams *streams = &plan->streams[local_rank];
    bool teed = files && (streams->tee & stream);
    /* One that is neither shown nor changed nor searched need not pass through us. */
    if (teed && (!streams->hidden || plan->strip_codes || dt_way_filters(plan, stream)))
        return DT_WAY_TEED;
    if (teed || (files && (streams->redirect & stream)))
        return DT_WAY_FILE;
    return plan->inherit_streams ? DT_WAY_INHERITED : DT_WAY_RELAYED;
}

bool dt_way_shared(const struct dt_plan *plan, bool files, int local_rank, bool one_console)
{
    return one_console && dt_way_of(plan, files, local_rank, DT_STDOUT) == DT_WAY_RELAYED &&
           dt_way_of(plan, files, local_rank, DT_STDERR) == DT_WAY_RELAYED;
}
