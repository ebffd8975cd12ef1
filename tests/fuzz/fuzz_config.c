/* SPDX-License-Identifier: Apache-2.0 */
/* The daemon's config file from any bytes: read or refused with a sentence that names a line, never
 * a crash or a leak. */
#include "base/opt/given.h"
#include "rendezvous/daemon/options.h"
#include "tests/fuzz/fuzz.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct dt_rendezvous_options options = {0};
    struct dt_err err = {0};
    struct dt_opt_given given = {0};
    int rc = dt_opt_given_read_config(&given, &dt_rendezvous_program, (const char *)data, size,
                                      "fuzz.conf", &err);
    if (rc == 0)
        rc = dt_opt_given_apply(&given, &dt_rendezvous_program, &options, NULL, &err);
    dt_opt_given_finish(&given);
    FUZZ_CHECK(rc == 0 || strncmp(err.text, "fuzz.conf", strlen("fuzz.conf")) == 0);
    dt_rendezvous_options_finish(&options);
    return 0;
}
