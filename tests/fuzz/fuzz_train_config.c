/* SPDX-License-Identifier: Apache-2.0 */
/* A training configuration from any bytes: read, or refused with a sentence that names its source;
 * never a crash or a leak. What is read keeps the ranges that the rest relies on. */
#include "tests/fuzz/fuzz.h"
#include "base/json.h"
#include "worker_runtime/config/config.h"

#include <math.h>
#include <string.h>

#define WRITTEN_MOST (1 << 16)

/* It turns by numbers, and what is written of it is read as the same model. */
static void check_shape(const struct dt_shape *s)
{
    float speeds[DT_HEAD_DIM_MOST / 2];
    struct dt_buf out = {0};
    struct dt_json doc = {0};
    struct dt_shape again;
    if (s->family != DT_GPT2) {
        dt_rope_speeds(&s->rope, s->rope_theta, s->head_dim, speeds);
        for (size_t i = 0; i < s->head_dim / 2; i++)
            FUZZ_CHECK(isfinite(speeds[i]));
        FUZZ_CHECK(isfinite(dt_rope_scale(&s->rope)) && dt_rope_scale(&s->rope) > 0);
    }
    dt_shape_write(s, DT_F32, &out);
    FUZZ_CHECK(dt_json_parse(&doc, (const char *)out.at, out.len, WRITTEN_MOST, NULL) == 0);
    FUZZ_CHECK(dt_shape_read(&again, &doc, NULL, NULL, NULL) == 0);
    FUZZ_CHECK(s->family == again.family && dt_shape_params(s) == dt_shape_params(&again));
    FUZZ_CHECK(s->rope.kind == again.rope.kind && s->window == again.window);
    dt_json_finish(&doc);
    dt_buf_finish(&out);
}

static void check_ranges(const struct dt_config *c)
{
    struct dt_batch b;
    FUZZ_CHECK(c->zero.stage >= 0 && c->zero.stage <= 3);
    FUZZ_CHECK(c->zero.beta1 >= 0 && c->zero.beta1 <= 1 && c->clip >= 0);
    FUZZ_CHECK(c->scaler.scale > 0 && c->schedule.lr >= 0);
    FUZZ_CHECK(!c->has_data || c->data.train[0].path[0]);
    FUZZ_CHECK(!c->has_model || c->data.positions > 0);
    FUZZ_CHECK(c->train.device[0] && c->train.collective_timeout_ms > 0);
    if (c->has_model)
        check_shape(&c->model.shape);
    for (int world = 1; world <= 3; world++)
        if (dt_batch_resolve(&b, &c->batch, world, NULL) == 0)
            FUZZ_CHECK(b.micro * b.accumulation * world == b.train);
}

/* A path would be opened: what is fuzzed is the text. */
static int names_a_model_file(const uint8_t *data, size_t size)
{
    if (!data)
        return 0;
    return memmem(data, size, "weights", 7) ||
           (memmem(data, size, "config", 6) && memmem(data, size, "/", 1));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct dt_config c;
    struct dt_buf warnings = {0};
    struct dt_err err = {0};
    if (names_a_model_file(data, size))
        return 0;
    int rc =
        dt_config_parse(&c, (const char *)data, size, "fuzz.json", "/nowhere", &warnings, &err);
    if (rc == 0)
        check_ranges(&c);
    else
        FUZZ_CHECK(strncmp(err.text, "fuzz.json: ", strlen("fuzz.json: ")) == 0);
    dt_config_finish(&c);
    dt_buf_finish(&warnings);
    return 0;
}
