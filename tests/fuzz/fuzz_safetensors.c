/* SPDX-License-Identifier: Apache-2.0 */
/* A safetensors file from any bytes: what is taken keeps the format's promises. */
#include "tests/fuzz/fuzz.h"
#include "worker_runtime/ckpt/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct dt_st_file f;
    struct dt_err err = {0};
    if (dt_st_parse(&f, (struct dt_bytes){data, size}, size, &err) < 0) {
        FUZZ_CHECK(err.text[0]);
        return 0;
    }
    uint64_t at = 0;
    for (size_t i = 0; i < f.count; i++) {
        FUZZ_CHECK(f.tensors[i].begin == at && f.tensors[i].end >= at);
        FUZZ_CHECK(dt_st_find(&f, f.tensors[i].name) == &f.tensors[i]);
        at = f.tensors[i].end;
    }
    FUZZ_CHECK(f.data_at + at == size);
    dt_st_close(&f);
    return 0;
}
