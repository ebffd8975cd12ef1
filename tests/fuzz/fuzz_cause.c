/* SPDX-License-Identifier: Apache-2.0 */
/* The cause of any end: the first byte is the exit status, or the signal, and the rest was said. */
#include "agent/failure/cause.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct dt_cause c;
    char sentence[DT_CAUSE_SENTENCE];
    if (size == 0)
        return 0;
    struct dt_cause_facts f = {.exit_code = data[0] & 0x80 ? 0 : 1 + data[0] % 3,
                               .signal = data[0] & 0x80 ? data[0] & 0x1f : 0,
                               .hung = "",
                               .full_disk = "",
                               .core = "",
                               .last_said = {data + 1, size - 1}};
    dt_cause_find(&f, &c);
    FUZZ_CHECK(c.class && c.strength <= DT_CAUSE_WEAK && c.retry < DT_RETRIES);
    dt_cause_sentence(&c, 3, sentence);
    for (const char *s = sentence; *s; s++)
        FUZZ_CHECK(*s >= 0x20 && *s < 0x7f);
    return 0;
}
