/* SPDX-License-Identifier: Apache-2.0 */
/* The shared state of torchrun's agents, from any pickle: what is taken can be written and read
 * again, and then is written in the same bytes. */
#include "agent/backend/torchrun/dynamic.h"
#include "base/base64.h"
#include "tests/fuzz/fuzz.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct dt_dynamic_state s = {0}, again = {0};
    struct dt_buf text = {0}, first = {0}, second = {0};
    struct dt_err err = {0};
    dt_base64_write(&text, (struct dt_bytes){data, size});
    if (dt_dynamic_read(&s, (struct dt_bytes){text.at, text.len}, &err) == 0) {
        dt_dynamic_write(&s, &first);
        again.dialect = s.dialect;
        FUZZ_CHECK(dt_dynamic_read(&again, (struct dt_bytes){first.at, first.len}, &err) == 0);
        dt_dynamic_write(&again, &second);
        FUZZ_CHECK(second.len == first.len && memcmp(second.at, first.at, first.len) == 0);
    } else {
        FUZZ_CHECK(err.text[0] != '\0');
    }
    dt_dynamic_finish(&s);
    dt_dynamic_finish(&again);
    dt_buf_finish(&text);
    dt_buf_finish(&first);
    dt_buf_finish(&second);
    return 0;
}
