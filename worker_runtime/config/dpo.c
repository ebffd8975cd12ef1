/* SPDX-License-Identifier: Apache-2.0 */
/* The block "dpo": answers that people like better, against others. The reference is the model that
 * the run begins with, which is there anyway where adapters are trained. */
#include "worker_runtime/config/keys.h"

int dt_config_settle_dpo(const struct dt_reading *r)
{
    struct dt_config_draft *d = r->draft;
    d->c.dpo.on = d->dpo_block;
    if (d->dpo_block && d->c.lora_from)
        dt_config_warn(r, "dpo: the reference is the model without the adapters of lora.from, so "
                          "the first loss is not ln 2; for a reference with them, make one model "
                          "of both by dtrun-train merge, and begin new adapters beside it");
    return 0;
}
