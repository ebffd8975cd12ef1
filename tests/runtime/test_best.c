/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/runtime/actor.h"

#include <math.h>

BEFORE_ALL
{
    folder_make();
}

/* Validations one behind the other, and what each comes to. */
TEST(a_lower_loss_is_the_best_and_one_that_is_much_lower_is_better)
{
    static const struct row {
        double loss;
        bool best;
        int64_t step, worse;
    } rows[] = {
        {NAN, false, 0, 1}, /* no loss is no best, and no better */
        {4, true, 20, 0},     {3.5, true, 30, 0},       {3.25, true, 40, 1}, /* lower by no more
                                                                                than asked for */
        {3.25, false, 40, 2}, {INFINITY, false, 40, 3}, {3, true, 70, 4},    {2.5, true, 80, 0},
        {2.6, false, 80, 1},
    };
    struct dt_ckpt_best b = {0};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int64_t at = ((int64_t)i + 1) * 10;
        CHECK_ROW("validation behind step %lld", (long long)at);
        CHECK_EQ(dt_best_take(&b, at, rows[i].loss, 0.25), rows[i].best);
        CHECK_EQ(b.step, rows[i].step);
        CHECK_EQ(b.worse, rows[i].worse);
        CHECK_EQ(b.validated, at);
    }
    CHECK(!dt_best_take(&b, 90, 1, 0)); /* a step is judged once */
    CHECK_EQ(b.step, 80);
}

TEST(patience_ends_a_run_where_there_is_any)
{
    struct dt_config_train c = {0};
    struct dt_ckpt_best b = {.worse = 3};
    CHECK(!dt_best_ends(&c, &b) && !dt_best_matters(&c));
    c.patience = 4;
    CHECK(!dt_best_ends(&c, &b) && dt_best_matters(&c));
    c.patience = 3;
    CHECK(dt_best_ends(&c, &b));
}

/* A best step and its save, which is heard of, or is not at its end, or fails. */
static void begin_best(struct dt_trainer *t, int64_t step, double loss)
{
    t->state.step = step;
    CHECK(dt_best_judge(t, loss));
    t->saving.phase = DT_SAVING_WRITING;
    t->saving.step = step;
    dt_best_save(t);
    dt_best_hear(t);
    CHECK_EQ(t->state.best.step, step);
}

static void end_save(struct dt_trainer *t, bool well)
{
    t->saving.phase = DT_SAVING_NONE;
    if (well)
        t->saving.saved = t->saving.step;
    dt_best_hear(t);
}

TEST(a_best_that_is_not_saved_is_none)
{
    struct dt_config c = {.train = {.keep_best = true}};
    struct dt_trainer t = {.config = &c, .saving = {.saved = -1}};
    begin_best(&t, 3, 3);
    end_save(&t, true);
    begin_best(&t, 6, 2);
    end_save(&t, false);
    CHECK_EQ(t.state.best.step, 3);
    CHECK(t.state.best.loss == 3 && t.state.best.validated == 6);
    begin_best(&t, 9, 2.5); /* which is no better than one that nobody has */
    end_save(&t, true);
    t.saving.step = 12; /* a later save, of no best step, that fails */
    t.saving.phase = DT_SAVING_WRITING;
    dt_best_save(&t);
    end_save(&t, false);
    CHECK_EQ(t.state.best.step, 9);
}

/* A step that is better still may be judged while the save of the one before it is under way. */
TEST(nor_is_one_behind_another_that_is_not_saved)
{
    static const struct row {
        bool second, third; /* whether those saves end well */
        int64_t best;
    } rows[] = {{false, false, 3}, {true, false, 6}, {false, true, 9}, {true, true, 9}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct dt_config c = {.train = {.keep_best = true}};
        struct dt_trainer t = {.config = &c, .saving = {.saved = -1}};
        CHECK_ROW("%zu", i);
        begin_best(&t, 3, 3);
        end_save(&t, true);
        begin_best(&t, 6, 2);
        t.state.step = 9;
        CHECK(dt_best_judge(&t, 1));
        end_save(&t, rows[i].second);
        CHECK_EQ(t.state.best.step, 9);
        t.saving.phase = DT_SAVING_WRITING;
        t.saving.step = 9;
        dt_best_save(&t);
        end_save(&t, rows[i].third);
        CHECK_EQ(t.state.best.step, rows[i].best);
    }
}

/* Without train.keep_best none is saved for that. */
TEST(a_best_that_nobody_keeps_needs_no_checkpoint)
{
    struct dt_config c = {.train = {.patience = 3}};
    struct dt_trainer t = {.config = &c, .state = {.step = 6}, .saving = {.step = 6, .saved = -1}};
    CHECK(!dt_best_judge(&t, 2));
    dt_best_save(&t);
    end_save(&t, false);
    CHECK_EQ(t.state.best.step, 6);
}

/* A run that ended at a step in whose middle it was to validate does that where it goes on. */
TEST(a_step_that_was_not_judged_is_judged_where_a_run_goes_on)
{
    struct dt_config c = {.train = {.patience = 2}};
    struct dt_trainer t = {.config = &c, .state = {.step = 8, .best = {.validated = 4}}};
    CHECK(dt_best_owes_validation(&t, true));
    CHECK(!dt_best_owes_validation(&t, false));
    t.best_lost = true;
    CHECK(dt_best_owes_validation(&t, false));
    t = (struct dt_trainer){.config = &c, .state = {.step = 8, .best = {.validated = 8}}};
    CHECK(!dt_best_owes_validation(&t, true));
    t.state.step = 0;
    CHECK(!dt_best_owes_validation(&t, true));
    c.train.patience = 0;
    t.state.step = 12;
    CHECK(!dt_best_owes_validation(&t, true));
}

/* A world that is back at the best step: its vault kept that one before it was judged, and what was
 * the best before it is gone. */
static void comes_back_to_its_best(struct rank_self *me)
{
    struct dt_err err = {0};
    struct actor a;
    open_actor(&a, me);
    struct dt_config c = {.train = {.keep_best = true, .patience = 3, .save_dir = a.saves}};
    struct dt_train_options o = {.config = &c};
    a.t.config = &c;
    a.t.options = &o;
    a.t.state = (struct dt_ckpt_state){.step = 5, .best = {.validated = 5, .step = 5, .loss = 1}};
    CHECK_OK(dt_saver_begin(&a.t, &err), err);
    CHECK_OK(dt_saver_finish(&a.t, &err), err);
    if (me->rank == 0)
        CHECK_OK(dt_ckpt_point_best(a.saves, 5, &err), err);
    a.t.state.best = (struct dt_ckpt_best){.validated = 4, .step = 2, .loss = 2, .worse = 2};
    CHECK_OK(dt_best_begin(&a.t, &err), err);
    CHECK_EQ(a.t.state.best.step, 5);
    CHECK_EQ(a.t.state.best.worse, 0);
    CHECK_EQ(a.t.best_saved.step, 5);
    CHECK(!a.t.best_lost && !dt_best_owes_validation(&a.t, true) && a.t.warnings.len == 0);
    /* At a later step the one that is named is older. */
    a.t.state.step = 6;
    a.t.state.best = (struct dt_ckpt_best){.validated = 6, .step = 6, .loss = 0.5};
    CHECK_OK(dt_best_begin(&a.t, &err), err);
    CHECK_EQ(a.t.state.best.step, 5);
    CHECK(a.t.best_lost && dt_best_owes_validation(&a.t, false));
    CHECK_EQ(a.t.warnings.len > 0, me->rank == 0);
    dt_buf_finish(&a.t.warnings);
    close_actor(&a);
}

TEST(the_best_step_is_not_compared_with_itself)
{
    ranks_run(2, comes_back_to_its_best, NULL);
}

/* Of 9 samples a validation takes C's validation_batches times MICRO, which follows from the world
 * where C does not say it, and the configuration of a next mesh says it where C does not. */
static uint32_t mark_in(int64_t micro, const struct dt_config *c)
{
    struct dt_err err = {0};
    struct dt_config next = *c;
    next.batch.micro_batch = micro;
    struct dt_train_options o = {.config = c};
    struct dt_trainer t = {.options = &o, .config = &next, .batch = {.micro = micro}};
    t.validation = dt_tokens_open(at("validation"), 2, 100, &err);
    CHECK_OK(t.validation ? 0 : -1, err);
    t.validation_samples = dt_samples_open(t.validation, c->data.positions, false, &err);
    CHECK_OK(t.validation_samples ? 0 : -1, err);
    uint32_t mark = dt_validate_mark(&t);
    dt_samples_close(t.validation_samples);
    dt_tokens_close(t.validation);
    return mark;
}

static uint32_t mark_of(const struct dt_config *c)
{
    return mark_in(2, c);
}

TEST(losses_are_compared_that_are_of_the_same_and_measured_alike)
{
    const struct dt_config usual = {.data = {.positions = 4}, .train = {.validation_batches = 2}};
    struct dt_config c[] = {usual, usual, usual, usual, usual, usual, usual, usual};
    const bool same[] = {true, true, false, false, false, false, false, true};
    uint16_t tokens[37] = {1, 2, 3};
    FILE *f = fopen(at("validation"), "w");
    CHECK(f && fwrite(tokens, sizeof *tokens, 37, f) == 37 && fclose(f) == 0);
    c[1].dpo.beta = 3; /* which is off */
    c[2].data.positions = 3;
    c[3].train.validation_batches = 3;
    c[4].batch.micro_batch = 2;
    c[5].train.validation_batches = 9; /* all of them */
    c[6].dpo = (struct dt_dpo){.on = true, .beta = 0.1};
    c[7].train.seed = 8;
    uint32_t mark = mark_of(&usual);
    CHECK(mark != 0);
    for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
        CHECK_ROW("%zu", i);
        CHECK_EQ(mark_of(&c[i]) == mark, same[i]);
    }
    uint32_t all = mark_of(&c[5]), pairs = mark_of(&c[6]);
    c[5].train.validation_batches = 10;
    CHECK_EQ(mark_of(&c[5]), all);
    c[5].train.validation_batches = 5;
    c[5].batch.micro_batch = 2;
    CHECK_EQ(mark_of(&c[5]), all);
    CHECK_EQ(mark_in(5, &usual), mark); /* in a smaller world, where it takes them all */
    c[6].dpo.beta = 0.2;
    CHECK(mark_of(&c[6]) != pairs);
    tokens[36] = 4;
    f = fopen(at("validation"), "w");
    CHECK(f && fwrite(tokens, sizeof *tokens, 37, f) == 37 && fclose(f) == 0);
    CHECK(mark_of(&usual) != mark);
}
