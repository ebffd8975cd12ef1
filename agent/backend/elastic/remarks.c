/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/backend/elastic/remarks.h"

#include <stdio.h>

void dt_remarks_add(struct dt_remarks *r, bool failed, const char *words)
{
    if (r->count == DT_REMARKS_MOST)
        return;
    r->at[r->count].failed = failed;
    snprintf(r->at[r->count].words, sizeof r->at[r->count].words, "%s", words);
    r->count++;
}

bool dt_remarks_take(struct dt_remarks *r, struct dt_message *m)
{
    if (r->told == r->count)
        return false;
    m->type = DT_MSG_REMARK;
    m->remark.failed = r->at[r->told].failed;
    m->why = r->at[r->told].words;
    r->told++;
    return true;
}
