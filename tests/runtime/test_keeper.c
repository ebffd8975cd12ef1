/* SPDX-License-Identifier: Apache-2.0 */
/* Whose steps in a vault are a run's own. */
#include "tests/lib/check.h"
#include "worker_runtime/train/inside.h"

static const struct dt_param params[] = {{"w", 300, true}};
static struct dt_unit unit = {"u", params, 1};

/* Of a run that trains adapters as C and L say beside the model in BASE. */
static uint64_t job(const struct dt_config *c, const struct dt_lora *l, const char *base)
{
    struct dt_trainer t = {.config = c, .saved = {.lora = l}, .units = &unit, .unit_count = 1};
    return dt_keeper_whose(&t, "run", base).job;
}

TEST(steps_of_adapters_count_beside_the_same_base_alone)
{
    const struct dt_config full = {0}, nf4 = {.lora_nf4 = true};
    const struct dt_lora lora = {.r = 4, .alpha = 8}, other = {.r = 4, .alpha = 16};
    CHECK(job(&full, &lora, "base") == job(&full, &lora, "base"));
    CHECK(job(&full, &lora, "base") != job(&nf4, &lora, "base"));
    CHECK(job(&full, &lora, "base") != job(&full, &other, "base"));
    CHECK(job(&full, &lora, "base") != job(&full, &lora, "elsewhere"));
    CHECK(job(&full, NULL, "base") == job(&nf4, NULL, "elsewhere"));
}

TEST(steps_of_adapters_count_with_the_same_shares_of_layers_alone)
{
    enum { LAYERS = 2, ALL = LAYERS * DT_BLOCK_TENSORS_MOST };
    const struct dt_config c = {.model.shape.layers = LAYERS};
    struct dt_lora_share own[ALL];
    const struct dt_lora plain = {.r = 4, .alpha = 8}, lora = {.r = 4, .alpha = 8, .own = own};
    for (size_t i = 0; i < ALL; i++)
        own[i] = (struct dt_lora_share){4, 8};
    CHECK(job(&c, &lora, "base") == job(&c, &plain, "base"));
    own[ALL - 1].alpha = 9;
    CHECK(job(&c, &lora, "base") != job(&c, &plain, "base"));
    own[ALL - 1] = (struct dt_lora_share){5, 8};
    CHECK(job(&c, &lora, "base") != job(&c, &plain, "base"));
}

/* Two stages of a model as C has it, whose blocks begin on the second at *SECOND. */
static struct dt_vault_whose whose_of_stages(const struct dt_config *c, size_t *second)
{
    struct dt_tensor *all[2] = {0};
    struct dt_stage *stages;
    struct dt_err err = {0};
    struct dt_trainer t = {.config = c, .ranks = 2, .all_parts = all, .parts = (void *)all};
    t.saved.tensors = dt_shape_tensors(&c->model.shape, &err);
    t.saved.count = dt_shape_tensor_count(&c->model.shape);
    t.unit_count = dt_shape_unit_count(&c->model.shape);
    CHECK_OK(dt_stages_split(c, &stages, &err), err);
    *second = stages[1].chunk[0].first;
    struct dt_vault_whose whose = dt_keeper_whose(&t, "run", NULL);
    CHECK(whose.job != 0 && whose.mesh != 0);
    t.all_parts = NULL;
    t.parts = NULL;
    CHECK_OK(dt_shape_units(&c->model.shape, t.saved.tensors, &t.units, &t.params, &err), err);
    struct dt_vault_whose alone = dt_keeper_whose(&t, "run", NULL);
    CHECK(alone.job == whose.job);
    CHECK_EQ(alone.mesh, 0);
    free(t.units);
    free(t.params);
    free(stages);
    free(t.saved.tensors);
    return whose;
}

TEST(steps_of_stages_count_with_the_same_blocks_alone)
{
    struct dt_config c = {
        .model.shape = {.family = DT_LLAMA,
                        .layers = 12,
                        .width = 64,
                        .heads = 4,
                        .kv_heads = 4,
                        .head_dim = 16,
                        .inner = 128,
                        .vocabulary = 4000},
        .data.positions = 32,
        .parallel = {.tensor = 1, .pipeline = 2, .context = 1, .schedule = DT_PIPE_1F1B}};
    size_t was, now;
    const struct dt_vault_whose whose = whose_of_stages(&c, &was);
    CHECK(whose_of_stages(&c, &now).mesh == whose.mesh);
    c.model.recompute = true;
    const struct dt_vault_whose again = whose_of_stages(&c, &now);
    CHECK(again.job == whose.job);
    CHECK(now != was);
    CHECK(again.mesh != whose.mesh);
    c.parallel.schedule = DT_PIPE_INTERLEAVED;
    c.parallel.chunks = 2;
    CHECK(whose_of_stages(&c, &now).mesh != again.mesh);
}
