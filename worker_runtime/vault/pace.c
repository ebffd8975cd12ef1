/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_runtime/vault/pace.h"

#include <math.h>

void dt_vault_pace_init(struct dt_vault_pace *p, int64_t every)
{
    *p = (struct dt_vault_pace){.every = every > 0 ? every : 1, .settled = every > 0};
}

bool dt_vault_pace_note(struct dt_vault_pace *p, double copy_s, double step_s)
{
    if (p->settled || !(copy_s > 0) || !(step_s > 0))
        return false;
    if (++p->copies <= DT_VAULT_WARM)
        return false;
    p->copies_s += copy_s;
    p->steps_s += step_s;
    if (p->copies < DT_VAULT_WARM + DT_VAULT_MEASURED)
        return false;
    double every = ceil(p->copies_s / p->steps_s / DT_VAULT_WORTH);
    p->every = every < 1 ? 1 : every > DT_VAULT_EVERY_MOST ? DT_VAULT_EVERY_MOST : (int64_t)every;
    p->settled = true;
    return true;
}
