/* SPDX-License-Identifier: Apache-2.0 */
/* A worker's error.json from any bytes: understood or refused with a sentence. What is understood
 * can be printed with the exit code, and the print is understood alike. */
#include "agent/failure/error_file.h"
#include "tests/fuzz/fuzz.h"

#include <string.h>

static void check_again(struct dt_error_file *f, int exit_code)
{
    struct dt_error_file again;
    struct dt_err err = {0};
    struct dt_buf out = {0};
    FUZZ_CHECK(dt_error_file_print(f, exit_code, &out, &err) == 0);
    int rc = dt_error_file_parse((const char *)out.at, out.len, &again, &err);
    FUZZ_CHECK(rc == 0 || err.code == DT_E_LIMIT);
    if (rc == 0) {
        FUZZ_CHECK(again.time == f->time);
        FUZZ_CHECK(!again.message == !f->message);
        FUZZ_CHECK(!f->message || strcmp(again.message, f->message) == 0);
    }
    dt_error_file_finish(&again);
    dt_buf_finish(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct dt_error_file f;
    struct dt_err err = {0};
    if (dt_error_file_parse((const char *)data, size, &f, &err) == 0) {
        FUZZ_CHECK(f.time == -1 || f.time >= 1);
        check_again(&f, 0);
        check_again(&f, -11);
    } else {
        FUZZ_CHECK(err.text[0] != '\0');
        FUZZ_CHECK(f.message == NULL);
    }
    dt_error_file_finish(&f);
    return 0;
}
