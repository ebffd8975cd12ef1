/* SPDX-License-Identifier: Apache-2.0 */
/* What a weight in NF4 says of itself, from any bytes: what is taken is one of the few forms that
 * are read, and its numbers can be computed with. */
#include "tests/fuzz/fuzz.h"
#include "worker_runtime/ckpt/bitsandbytes.h"

#include <math.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct dt_bnb_weight w = {0};
    struct dt_err err = {0};
    if (dt_bnb_take_state(&w, (struct dt_bytes){data, size}, 48, 64, &err) < 0) {
        FUZZ_CHECK(err.text[0]);
        return 0;
    }
    FUZZ_CHECK(w.type == DT_F32 || w.type == DT_BF16 || w.type == DT_F16);
    FUZZ_CHECK(isfinite(w.offset));
    return 0;
}
