/* SPDX-License-Identifier: Apache-2.0 */
/* A run's record, whatever a journal may hold: it is refused, or it is a run like any other, that
 * comes to rest, and whose record is read again as it was written. */
#include "tests/fuzz/rdzv_truth.h"

#define NOW (1000 * DT_SECOND)

static void check_written_again(const struct dt_rdzv *r, struct dt_exclude *exclude)
{
    struct dt_buf once = {0}, twice = {0};
    dt_rdzv_save(r, &once);
    struct dt_rdzv *again =
        dt_rdzv_restore("run", exclude, 1, (struct dt_bytes){once.at, once.len}, NOW);
    FUZZ_CHECK(again != NULL);
    dt_rdzv_save(again, &twice);
    FUZZ_CHECK(once.len == twice.len && memcmp(once.at, twice.at, once.len) == 0);
    dt_rdzv_destroy(again);
    dt_buf_finish(&once);
    dt_buf_finish(&twice);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct dt_exclude exclude;
    struct dt_rdzv_actions out = {0};
    dt_exclude_init(&exclude, 1);
    struct dt_rdzv *r = dt_rdzv_restore("run", &exclude, 1, (struct dt_bytes){data, size}, NOW);
    if (r) {
        dt_ms now = NOW;
        check_truth(r);
        check_written_again(r, &exclude);
        for (int i = 0; i < 10 && !dt_rdzv_is_idle(r, now); i++) {
            dt_rdzv_step(r, &(struct dt_rdzv_event){.type = DT_EV_TICK}, now, &out);
            check_truth(r);
            check_rest(r, &out, now);
            dt_ms next = dt_rdzv_next(r);
            if (next < now + 1000000 * DT_SECOND)
                now = next > now ? next : now;
        }
        dt_rdzv_destroy(r);
    }
    dt_rdzv_actions_finish(&out);
    dt_exclude_finish(&exclude);
    return 0;
}
