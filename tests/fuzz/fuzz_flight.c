/* SPDX-License-Identifier: Apache-2.0 */
/* A dump of PyTorch's flight recorder, from any bytes: what is taken makes a stance whose texts
 * end, and what is refused has a reason. */
#include "agent/hang/flight.h"
#include "tests/fuzz/fuzz.h"

#include <string.h>

static bool ends(const char *text, size_t size)
{
    return memchr(text, '\0', size) != NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct dt_flight f;
    struct dt_stance s = {.doing = DT_DOING_COMPUTE, .where = "train.py:1", .sequence = -1};
    struct dt_err err = {0};
    if (dt_flight_read(&f, (struct dt_bytes){data, size}, &err) < 0) {
        FUZZ_CHECK(err.text[0] != '\0');
        return 0;
    }
    dt_flight_tell(&f, &s);
    FUZZ_CHECK(f.pending >= 0 && f.completed >= 0);
    FUZZ_CHECK((s.doing == DT_DOING_COLLECTIVE) == (f.pending > 0));
    FUZZ_CHECK(ends(s.where, sizeof s.where) && ends(s.function, sizeof s.function));
    FUZZ_CHECK(ends(s.collective, sizeof s.collective) && ends(s.group, sizeof s.group));
    FUZZ_CHECK(ends(s.shape, sizeof s.shape) && ends(s.detail, sizeof s.detail));
    return 0;
}
