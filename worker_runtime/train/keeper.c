/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_runtime/train/keeper.h"

#include "base/clock.h"
#include "base/say.h"
#include "worker_runtime/coll/agree.h"
#include "worker_runtime/ops/by_chance.h"
#include "worker_runtime/train/inside.h"
#include "worker_runtime/train/rescue.h"
#include "worker_runtime/vault/move.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

/* -- coming back ------------------------------------------------------------------------------ */

/* "none" is the name of all jobs that were given none: those are told apart by their marks. */
bool dt_keeper_is_of_job(const struct dt_trainer *t, const struct dt_ckpt_state *s)
{
    const char *run_id = dt_context_run_id(t->context);
    bool named = *run_id && strcmp(run_id, "none") != 0;
    return (named && strncmp(s->run_id, run_id, sizeof s->run_id - 1) == 0) ||
           (s->job_mark && s->job_mark == t->keeper.job_mark);
}

/* The checkpoint that was found, as choose.h compares it. */
static int64_t round_of_checkpoint(const struct dt_trainer *t)
{
    bool earlier = t->state.round < dt_context_epoch(t->context);
    return earlier && dt_keeper_is_of_job(t, &t->state) ? t->state.round : -1;
}

static int choose(struct dt_trainer *t, struct dt_err *err)
{
    struct dt_keeper *k = &t->keeper;
    struct dt_vault_held own[DT_VAULT_HELD], *all;
    dt_vault_list(k->vault, own, &t->warnings);
    all = calloc((size_t)t->ranks, sizeof own);
    int rc = all && k->last ? 0 : dt_err_set(err, DT_E_MEMORY, "no memory for lists of vaults");
    rc = dt_agree(t->world, rc, err);
    if (rc == 0)
        rc = dt_coll_all_gather(t->world, own, all, sizeof own, DT_U8, err);
    if (rc == 0)
        rc = dt_vault_choose(all, t->ranks, &k->back, err);
    free(all);
    return rc;
}

int dt_kept_check(struct dt_kept_state *k, struct dt_err *err)
{
    struct dt_ckpt_state *s = &k->state;
    int most = (int)(sizeof s->micro_steps / sizeof s->micro_steps[0]);
    s->run_id[sizeof s->run_id - 1] = '\0';
    k->base[sizeof k->base - 1] = '\0';
    if (s->micro_steps_count >= 0 && s->micro_steps_count <= most && s->own_size <= sizeof s->own)
        return 0;
    return dt_err_set(err, DT_E_RUNTIME, "the state that the vault has is no state");
}

/* What all share, from who gives the first shard. */
static int share_state(struct dt_trainer *t, struct dt_err *err)
{
    struct dt_keeper *k = &t->keeper;
    const struct dt_vault_giver *giver = &k->back.giver[0];
    if (k->back.state != (int64_t)sizeof *k->last)
        return dt_err_set(err, DT_E_RUNTIME, "the vault is of another program");
    if (giver->rank == t->rank) {
        const struct dt_vault_slot *s = dt_vault_slot(k->vault, giver->source, giver->slot);
        memcpy(k->last, dt_vault_slot_state(s), sizeof *k->last);
        k->told = dt_vault_slot_header(s)->told;
    }
    if (dt_coll_broadcast(t->world, k->last, sizeof *k->last, DT_U8, giver->rank, err) < 0 ||
        dt_coll_broadcast(t->world, &k->told, sizeof k->told, DT_U8, giver->rank, err) < 0)
        return -1;
    k->job_mark = k->last->state.job_mark;
    return dt_kept_check(k->last, err);
}

static int draw_mark(struct dt_trainer *t, struct dt_err *err)
{
    uint64_t *mark = &t->keeper.job_mark;
    if (t->rank == 0 && getrandom(mark, sizeof *mark, 0) != sizeof *mark)
        *mark = (uint64_t)dt_clock_monotonic_ns();
    return dt_coll_broadcast(t->world, mark, sizeof *mark, DT_U8, 0, err);
}

/* The rank and alpha of each layer, as one number. */
static uint64_t mix_shares(const struct dt_lora *l, const struct dt_shape *s)
{
    uint64_t all = 0;
    for (size_t block = 0; block < s->layers; block++)
        for (size_t i = 0; i < DT_BLOCK_TENSORS_MOST; i++) {
            const struct dt_lora_share h = dt_lora_share(l, block, i);
            uint32_t alpha;
            memcpy(&alpha, &h.alpha, sizeof alpha);
            all = dt_mix(all ^ ((uint64_t)h.r << 32 | alpha));
        }
    return all;
}

#define MEANING_MOST (PATH_MAX + 200)

/* Which adapters they are, and beside what; "": it is the model. */
static void put_meaning(const struct dt_trainer *t, const char *base, char out[MEANING_MOST])
{
    const struct dt_lora *l = t->saved.lora;
    *out = '\0';
    if (l)
        snprintf(out, MEANING_MOST, "rank %zu, alpha %a, %" PRIx64 ", %d, %d, nf4 %d, %s", l->r,
                 (double)l->alpha, mix_shares(l, &t->config->model.shape), l->rslora, l->dora,
                 t->config->lora_nf4, base ? base : "");
}

/* The job is that of all of the model, in whatever mesh. What one rank of a mesh has is of use to
 * the same one of the same mesh alone, with the same blocks. */
static struct dt_vault_whose whose_of_mesh(const struct dt_trainer *t, const char *run_id,
                                           const char *meaning)
{
    const struct dt_config_parallel *p = &t->config->parallel;
    struct dt_vault_whose nobody = {0}, whose = {.mesh = 1};
    struct dt_unit *units;
    struct dt_param *params;
    uint64_t stages = dt_stages_mark(t->config);
    if (stages == 0 ||
        dt_tensor_units(t->saved.tensors, t->saved.count, t->unit_count, &units, &params, NULL) < 0)
        return nobody;
    whose.job = dt_vault_job(run_id, meaning, units, t->unit_count, sizeof(struct dt_kept_state));
    const uint64_t shared[] = {(uint64_t)t->ranks, (uint64_t)p->tensor, (uint64_t)p->expert,
                               (uint64_t)p->pipeline, stages};
    for (size_t i = 0; i < sizeof shared / sizeof *shared; i++)
        whose.mesh = dt_mix(whose.mesh ^ shared[i]);
    free(units);
    free(params);
    return whose;
}

struct dt_vault_whose dt_keeper_whose(const struct dt_trainer *t, const char *run_id,
                                      const char *base)
{
    char meaning[MEANING_MOST];
    put_meaning(t, base, meaning);
    if (t->parts)
        return whose_of_mesh(t, run_id, meaning);
    return (struct dt_vault_whose){.job = dt_vault_job(run_id, meaning, t->units, t->unit_count,
                                                       sizeof(struct dt_kept_state))};
}

int dt_keeper_find(struct dt_trainer *t, struct dt_err *err)
{
    struct dt_keeper *k = &t->keeper;
    *k = (struct dt_keeper){.kept = -1};
    if (t->config->train.vault == DT_VAULT_OFF)
        return 0;
    struct dt_vault_options o = {
        .whose = dt_keeper_whose(t, dt_context_run_id(t->context), t->options->init_from),
        .rank = t->rank,
        .world = t->ranks,
        .host = dt_context_host(t->context),
        .epoch = dt_context_epoch(t->context),
        .meshes = t->config->parallel.elastic};
    if (t->parts && dt_recut_shard(&t->saved, t->unit_count, &k->shard, err) < 0)
        return -1;
    o.shard = k->shard;
    k->last = calloc(1, sizeof *k->last);
    k->vault = k->last ? dt_vault_open(&o, err) : NULL;
    if (choose(t, err) < 0)
        return -1;
    return dt_keeper_is_back(k) ? share_state(t, err) : draw_mark(t, err);
}

void dt_keeper_settle_start(struct dt_trainer *t, int64_t step)
{
    struct dt_keeper *k = &t->keeper;
    if (!dt_keeper_is_back(k))
        return;
    if (t->uploader)
        t->uploader->anew = k->last->anew;
    if (step >= 0 && dt_vault_choice_is_older(&k->back, round_of_checkpoint(t), step)) {
        dt_vault_choice_finish(&k->back);
        return;
    }
    t->state = k->last->state;
    t->skipped = k->last->skipped;
}

/* How the images of all ranks are cut. Where ranks share more than data, each has shards of a model
 * of its own: together they are as those of one unit, of which each rank has as much. */
static int cut_images(const struct dt_trainer *t, struct dt_layout *out, struct dt_err *err)
{
    const struct dt_layout *own = dt_zero_layout(t->zero);
    size_t ranks = (size_t)t->ranks, *sizes = calloc(own->units, sizeof *sizes);
    size_t units = t->parts ? 1 : own->units, all = t->keeper.shard * ranks;
    if (!sizes)
        return dt_err_set(err, DT_E_MEMORY, "no memory for a list of %zu units", own->units);
    for (size_t u = 0; u < units; u++)
        sizes[u] = t->parts ? all : own->unit[u].size;
    int rc = dt_layout_init(out, sizes, units, ranks, err);
    free(sizes);
    return rc;
}

int dt_keeper_load(struct dt_trainer *t, struct dt_err *err)
{
    const struct dt_vault_choice *back = &t->keeper.back;
    struct dt_vault_shards s = {0};
    struct dt_layout images = {0};
    int64_t steps = t->state.optimizer_steps;
    int rc = dt_agree(t->world, cut_images(t, &images, err), err);
    if (rc == 0)
        rc = dt_vault_move(t->keeper.vault, back, &images, t->world, &s, err);
    s.state.layout = dt_zero_layout(t->zero);
    s.state.rank = dt_zero_rank(t->zero);
    s.state.steps = &steps;
    if (rc == 0)
        rc = dt_zero_load(t->zero, &s.state, err);
    dt_vault_shards_finish(&s);
    dt_layout_finish(&images);
    if (t->keeper.vault)
        dt_vault_begin_from(t->keeper.vault, back->epoch, back->step);
    return rc;
}

/* -- whether, and how often ------------------------------------------------------------------- */

/* For the images of each rank of this host, as far as it is known how many they are. */
static struct dt_vault_need need_of(const struct dt_trainer *t)
{
    size_t own = dt_zero_layout(t->zero)->shard;
    return (struct dt_vault_need){.shard = t->keeper.shard ? t->keeper.shard : own,
                                  .state = sizeof *t->keeper.last,
                                  .images = 1,
                                  .local = dt_context_local_world(t->context),
                                  .left = dt_trainer_memory_left(t)};
}

static int check(const struct dt_trainer *t, struct dt_err *err)
{
    const struct dt_keeper *k = &t->keeper;
    const struct dt_vault_need need = need_of(t);
    if (!k->vault)
        return dt_err_set(
            err, DT_E_RUNTIME,
            "train.vault asks for a vault, but rank %d was given none: only dtrun makes "
            "one; start the run with it, or leave train.vault at \"auto\"",
            t->rank);
    return dt_vault_check_room(k->vault, &need, err);
}

static bool is_over(void *page)
{
    return dt_page_round_over(page);
}

static int begin_copies(struct dt_trainer *t, struct dt_err *err)
{
    enum dt_vault_use use = t->config->train.vault;
    struct dt_err why = {0};
    struct dt_copies_options o = {.world = t->world,
                                  .host = dt_context_host(t->context),
                                  .vault = t->keeper.vault,
                                  .need = need_of(t),
                                  .give_up = is_over,
                                  .give_up_arg = t->page};
    if (use == DT_VAULT_LOCAL || dt_context_hosts(t->context) < 2 ||
        dt_copies_open(&o, &t->keeper.copies, &why) == 0)
        return 0;
    if (dt_agree_is_lost(&why) || use == DT_VAULT_PEER) {
        *err = why;
        return dt_err_wrap(err, "copies of the vault on other nodes");
    }
    if (t->rank == 0)
        dt_buf_printf(&t->warnings,
                      "no copies of the vault are made on other nodes: %s; a node that is lost "
                      "costs what was done since the last checkpoint\n",
                      why.text);
    return 0;
}

int dt_keeper_begin(struct dt_trainer *t, struct dt_err *err)
{
    struct dt_keeper *k = &t->keeper;
    const struct dt_config_train *c = &t->config->train;
    struct dt_err why;
    if (c->vault == DT_VAULT_OFF)
        return 0;
    k->on = dt_agree(t->world, check(t, &why), &why) == 0;
    dt_vault_pace_init(&k->pace, c->vault_every);
    if (!k->on && c->vault != DT_VAULT_AUTO)
        return dt_err_set(err, why.code, "%s", why.text);
    if (!k->on && k->vault && t->rank == 0)
        dt_buf_printf(&t->warnings, "no step is kept in memory: %s\n", why.text);
    if (k->vault)
        dt_rescue_leave_note(k->vault, t->config, k->on && t->config->train.save_dir && !t->parts);
    return k->on ? begin_copies(t, err) : 0;
}

static void close_copies(struct dt_keeper *k)
{
    dt_copies_close(k->copies);
    k->copies = NULL;
}

void dt_keeper_close(struct dt_keeper *k)
{
    close_copies(k);
    dt_vault_close(k->vault);
    dt_vault_choice_finish(&k->back);
    free(k->last);
    k->last = NULL;
    k->vault = NULL;
}

static void measure(struct dt_trainer *t, const struct dt_keeping_news *all)
{
    struct dt_vault_pace *p = &t->keeper.pace;
    if (dt_vault_pace_note(p, all->copy_s, all->step_s) && t->metrics && p->every > 1)
        dt_metrics_say(t->metrics,
                       "the vault keeps one step in %lld: a copy takes %.1f %% of a step; "
                       "train.vault_every says otherwise",
                       (long long)p->every, 100 * p->copies_s / p->steps_s);
}

/* -- telling ---------------------------------------------------------------------------------- */

static void put_on_page(struct dt_trainer *t, const struct dt_page_values *v)
{
    t->told = *v;
    t->told.saved = t->saving.saved;
    dt_page_update(t->page, &t->told);
}

static void tell(struct dt_trainer *t, const struct dt_step_told *s)
{
    dt_page_spend(t->page, s->own_ns, s->data_ns);
    dt_page_communicate(t->page, s->communication_ns);
    dt_page_mfu(t->page, s->mfu);
    put_on_page(t, &s->page);
    dt_page_promise_loss(t->page); /* behind it: before the first step the page's loss is NaN */
    if (t->metrics)
        dt_metrics_step(t->metrics, &s->metrics);
}

/* What waited is safe on all ranks, or cannot be made so. */
static void tell_waiting(struct dt_trainer *t)
{
    struct dt_keeper *k = &t->keeper;
    k->waits = false;
    tell(t, &k->last->told);
    if (k->vault)
        dt_vault_told(k->vault, DT_VAULT_TOLD_STEP);
}

/* Whether the step kept last is safe, should this process die now. */
static bool is_safe_here(const struct dt_trainer *t)
{
    return t->keeper.waits && !t->keeper.failed;
}

/* The copy had the time of a step to get where it belongs. */
static void await_copy(struct dt_trainer *t)
{
    struct dt_keeper *k = &t->keeper;
    if (!k->copies || k->lost.code)
        return;
    int64_t begun = dt_clock_monotonic_ns();
    dt_page_section(t->page, "vault");
    dt_copies_wait(k->copies, &k->lost);
    double waited = (double)(dt_clock_monotonic_ns() - begun) * 1e-9;
    k->copy_s += k->copy_s > 0 ? waited : 0;
    t->vault_s += waited;
}

void dt_keeper_tell(struct dt_trainer *t, struct dt_keeping_news *own)
{
    struct dt_keeper *k = &t->keeper;
    await_copy(t);
    *own = (struct dt_keeping_news){
        .secured = is_safe_here(t), .failed = k->failed, .lost = k->copies && k->lost.code};
    if (k->copy_s > 0) {
        own->copy_s = k->copy_s;
        own->step_s = k->last->told.metrics.ms * 1e-3;
    }
    k->copy_s = 0;
}

/* No copies are better than some: with those of a few ranks no lost node can be made up for. */
static int give_up_copies(struct dt_trainer *t, struct dt_err *err)
{
    struct dt_keeper *k = &t->keeper;
    struct dt_err why = k->lost;
    close_copies(k);
    dt_agree(t->world, why.code ? -1 : 0, &why);
    if (dt_agree_is_lost(&why)) {
        *err = why;
        return -1;
    }
    if (t->metrics)
        dt_metrics_say(t->metrics,
                       "no further copies of the vault are made on other nodes in this round: %s",
                       why.text);
    return 0;
}

int dt_keeper_hear(struct dt_trainer *t, const struct dt_keeping_news *all, struct dt_err *err)
{
    struct dt_keeper *k = &t->keeper;
    if (!k->on)
        return 0;
    measure(t, all);
    if (k->waits && (all->secured == t->ranks || all->failed > 0)) {
        if (all->failed == 0)
            dt_vault_safe(k->vault, k->kept);
        tell_waiting(t);
    }
    k->on = all->failed == 0;
    if (!k->on)
        close_copies(k);
    return k->on && all->lost > 0 ? give_up_copies(t, err) : 0;
}

int dt_keeper_settle(struct dt_trainer *t, struct dt_err *err)
{
    struct dt_keeping_news all;
    if (!t->keeper.waits)
        return 0;
    dt_keeper_tell(t, &all);
    if (dt_coll_all_reduce(t->world, &all, sizeof all / sizeof(double), DT_F64, DT_SUM, err) < 0)
        return -1;
    return dt_keeper_hear(t, &all, err);
}

/* -- keeping ---------------------------------------------------------------------------------- */

static void say_failed(const struct dt_trainer *t, const struct dt_err *why)
{
    char who[40], line[sizeof why->text + 100];
    snprintf(who, sizeof who, DT_TRAIN_PROGRAM ": rank %d", t->rank);
    snprintf(line, sizeof line, "%s; training goes on without the vault", why->text);
    dt_say_lines(who, line);
}

static void keep(struct dt_trainer *t, const struct dt_step_told *told)
{
    struct dt_keeper *k = &t->keeper;
    struct dt_err why;
    int64_t begun = dt_clock_monotonic_ns();
    dt_page_section(t->page, "vault");
    dt_trainer_note_state(t);
    *k->last = (struct dt_kept_state){.state = t->state,
                                      .skipped = t->skipped,
                                      .told = *told,
                                      .anew = t->uploader && t->uploader->anew};
    if (t->base)
        snprintf(k->last->base, sizeof k->last->base, "%s", t->weights);
    struct dt_bytes state = {(const uint8_t *)k->last, sizeof *k->last};
    k->kept = t->state.step;
    k->failed = dt_vault_keep(k->vault, t->zero, k->kept, state, &why) < 0;
    if (k->failed)
        say_failed(t, &why);
    else if (k->copies)
        dt_copies_send(k->copies);
    k->copy_s = (double)(dt_clock_monotonic_ns() - begun) * 1e-9;
    t->vault_s += k->copy_s;
}

void dt_keeper_take(struct dt_trainer *t, const struct dt_step_told *told)
{
    struct dt_keeper *k = &t->keeper;
    if (!k->on || (k->kept >= 0 && t->state.step - k->kept < k->pace.every)) {
        tell(t, told);
        return;
    }
    keep(t, told);
    k->waits = true;
    if (t->ranks > 1)
        return;
    struct dt_keeping_news own;
    dt_keeper_tell(t, &own);
    dt_keeper_hear(t, &own, NULL); /* of a rank alone nothing of it is collective */
}

/* -- behind a comeback ------------------------------------------------------------------------ */

int64_t dt_keeper_first_untold(const struct dt_trainer *t)
{
    bool told = !dt_keeper_is_back(&t->keeper) || (t->keeper.told & DT_VAULT_TOLD_STEP);
    return told ? t->state.step + 1 : t->state.step;
}

void dt_keeper_catch_up(struct dt_trainer *t)
{
    if (dt_keeper_first_untold(t) == t->state.step)
        tell_waiting(t);
    else
        put_on_page(t, &t->keeper.last->told.page);
}

void dt_keeper_validated(struct dt_trainer *t)
{
    const struct dt_keeper *k = &t->keeper;
    int64_t held = k->kept >= 0 ? k->kept : dt_keeper_is_back(k) ? k->back.step : -1;
    if (k->vault && held == t->state.step)
        dt_vault_told(k->vault, DT_VAULT_TOLD_VALIDATION);
}

bool dt_keeper_owes_validation(const struct dt_trainer *t)
{
    return dt_keeper_is_back(&t->keeper) && !(t->keeper.told & DT_VAULT_TOLD_VALIDATION);
}
