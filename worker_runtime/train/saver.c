/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints beside the steps. What ranks know of one goes into the step's own sum over all ranks;
 * ckpt/saving.h has what they make of it. A checkpoint that cannot be written costs a warning and
 * what it would have saved, never the run. */
#include "worker_runtime/train/inside.h"

/* Rank 0 speaks for all. */
static void say(struct dt_trainer *t, struct dt_buf *said)
{
    if (t->metrics && said->len)
        dt_metrics_warn(t->metrics, dt_buf_cstr(said));
    dt_buf_finish(said);
}

void dt_saver_tell(struct dt_trainer *t, struct dt_agreement *own)
{
    dt_saving_tell(&t->saving, &own->save);
    dt_uploader_tell(t, &own->upload);
}

int dt_saver_hear(struct dt_trainer *t, const struct dt_agreement *own,
                  const struct dt_agreement *all, struct dt_err *err)
{
    struct dt_buf said = {0};
    int rc = dt_saving_hear(&t->saving, &own->save, &all->save, t->world, &said, err);
    say(t, &said);
    dt_best_hear(t);
    return rc < 0 ? -1 : dt_uploader_hear(t, &own->upload, &all->upload, err);
}

int dt_saver_finish(struct dt_trainer *t, struct dt_err *err)
{
    struct dt_buf said = {0};
    int rc = dt_saving_finish(&t->saving, t->world, &said, err);
    say(t, &said);
    dt_best_hear(t);
    return rc;
}

void dt_trainer_note_state(struct dt_trainer *t)
{
    const int *deal = dt_balance_deal(t->balance);
    int ranks = dt_trainer_data(t)->size;
    t->state.scaler = t->scaler;
    t->state.optimizer_steps = dt_zero_steps(t->zero);
    t->state.micro_steps_count = 0;
    if (ranks <= (int)(sizeof t->state.micro_steps / sizeof t->state.micro_steps[0])) {
        t->state.micro_steps_count = ranks;
        memcpy(t->state.micro_steps, deal, (size_t)ranks * sizeof *deal);
    }
}

int dt_saver_begin(struct dt_trainer *t, struct dt_err *err)
{
    if (dt_saver_finish(t, err) < 0)
        return -1;
    dt_trainer_note_state(t);
    dt_page_section(t->page, "checkpoint");
    if (dt_saving_begin(&t->saving, t->zero, &t->state, err) < 0)
        return -1;
    dt_best_save(t);
    return 0;
}
