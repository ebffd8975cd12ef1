/* SPDX-License-Identifier: Apache-2.0 */
/* How often a step is kept: each one, where its copy takes little beside it, and else so rarely
 * that copies take no more of the time. Found out from the first few, once. Pure: all ranks are
 * given the same numbers, and so decide alike. */
#ifndef DT_WORKER_RUNTIME_VAULT_PACE_H
#define DT_WORKER_RUNTIME_VAULT_PACE_H

#include <stdbool.h>
#include <stdint.h>

#define DT_VAULT_WORTH 0.02 /* of the time of training */
#define DT_VAULT_WARM 2     /* copies that are not measured: each of the slots is new once */
#define DT_VAULT_MEASURED 3 /* copies that are */
#define DT_VAULT_EVERY_MOST 1000

struct dt_vault_pace {
    int64_t every; /* steps from one copy to the next */
    bool settled;
    int copies;
    double copies_s, steps_s;
};

/* EVERY 0: to be found out. */
void dt_vault_pace_init(struct dt_vault_pace *p, int64_t every);
/* A copy took COPY_S, and the step before it STEP_S; 0: not measured. True: it is settled now. */
bool dt_vault_pace_note(struct dt_vault_pace *p, double copy_s, double step_s);

#endif
