/* SPDX-License-Identifier: Apache-2.0 */
/* What is shown of any last output: bounded, lines of a report, nothing a terminal obeys. */
#include "agent/failure/excerpt.h"
#include "tests/fuzz/fuzz.h"

#define LINES_MAX 121
#define LINE_MAX_BYTES (1000 + 4 + 3)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct dt_buf out = {0};
    size_t lines = 1, here = 0;
    dt_excerpt_put((struct dt_bytes){data, size}, &out);
    FUZZ_CHECK(!out.bad && out.len <= size + LINES_MAX * 4);
    for (size_t i = 0; i < out.len; i++) {
        uint8_t c = out.at[i];
        FUZZ_CHECK((c >= 0x20 && c != 0x7f) || c == '\t' || c == '\n');
        here = c == '\n' ? 0 : here + 1;
        lines += c == '\n';
        FUZZ_CHECK(here <= LINE_MAX_BYTES);
    }
    FUZZ_CHECK(lines <= LINES_MAX);
    dt_buf_finish(&out);
    return 0;
}
