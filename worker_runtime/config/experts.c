/* SPDX-License-Identifier: Apache-2.0 */
/* What a model with experts does not go with. */
#include "worker_runtime/config/keys.h"

int dt_config_check_experts(const struct dt_reading *r)
{
    const struct dt_config_draft *d = r->draft;
    const struct {
        bool is;
        const char *what;
    } rows[] = {
        {d->lora_block, "lora: adapters are not made for the experts of a model so far; drop the "
                        "block, and train all of the model"},
        {d->dpo_block, "dpo: models with experts are not trained with pairs of answers so far; "
                       "drop the block"},
    };
    if (!d->c.has_model || d->c.model.shape.experts == 0)
        return 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].is)
            return dt_err_set(r->err, DT_E_USAGE, "%s", rows[i].what);
    return 0;
}
