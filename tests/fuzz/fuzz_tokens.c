/* SPDX-License-Identifier: Apache-2.0 */
/* A file of tokens from any bytes, with and without a width for raw ones: taken or refused with a
 * sentence, never read beyond its end. */
#include "tests/fuzz/fuzz.h"
#include "worker_runtime/data/tokens.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    for (int width = 0; width <= 4; width += 2) {
        struct dt_err err = {0};
        int rc = dt_tokens_check((struct dt_bytes){data, size}, width, &err);
        FUZZ_CHECK(rc == 0 || strlen(err.text) > 0);
        /* Without a width only a header makes a file one of tokens: ours, or one of llm.c. */
        FUZZ_CHECK(rc < 0 || width || memcmp(data, "DTRTOKEN", 8) == 0 || size >= 1024);
    }
    return 0;
}
