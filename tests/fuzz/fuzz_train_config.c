/* SPDX-License-Identifier: Apache-2.0 */
/* A training configuration from any bytes: read, or refused with a sentence that names its source;
 * never a crash or a leak. What is read keeps the ranges that the rest relies on. */
#include "tests/fuzz/fuzz.h"
#include "worker_runtime/config/config.h"

#include <string.h>

static void check_ranges(const struct dt_config *c)
{
    struct dt_batch b;
    FUZZ_CHECK(c->zero.stage >= 0 && c->zero.stage <= 3);
    FUZZ_CHECK(c->zero.beta1 >= 0 && c->zero.beta1 <= 1 && c->clip >= 0);
    FUZZ_CHECK(c->scaler.scale > 0 && c->schedule.lr >= 0);
    FUZZ_CHECK(!c->has_data || c->data.train);
    FUZZ_CHECK(!c->has_model || c->data.positions > 0);
    FUZZ_CHECK(c->train.device[0] && c->train.collective_timeout_ms > 0);
    for (int world = 1; world <= 3; world++)
        if (dt_batch_resolve(&b, &c->batch, world, NULL) == 0)
            FUZZ_CHECK(b.micro * b.accumulation * world == b.train);
}

/* A path would be opened: what is fuzzed is the text. */
static int names_a_model_file(const uint8_t *data, size_t size)
{
    return data && memmem(data, size, "config", 6) && memmem(data, size, "/", 1);
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
