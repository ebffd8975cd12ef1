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
    return dt_keeper_job(&t, "run", base);
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
