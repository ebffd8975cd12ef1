/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_runtime/coll/agree.h"

#include <stdint.h>
#include <string.h>

bool dt_agree_is_lost(const struct dt_err *err)
{
    return err->code == DT_E_DISCONNECTED || err->code == DT_E_TIMEOUT ||
           err->code == DT_E_CANCELED;
}

int dt_agree(struct dt_coll *g, int rc, struct dt_err *err)
{
    struct dt_err first = {0}, lost, unasked = {0};
    int rank = dt_coll_rank(g), size = dt_coll_size(g);
    int32_t lowest = rc < 0 ? rank : size; /* that has failed */
    if (!err)
        err = &unasked;
    if (rc < 0 && dt_agree_is_lost(err))
        return -1;
    if (rc < 0)
        first = *err;
    if (dt_coll_all_reduce(g, &lowest, 1, DT_I32, DT_MIN, &lost) < 0 ||
        (lowest < size && dt_coll_broadcast(g, &first, sizeof first, DT_U8, lowest, &lost) < 0)) {
        if (rc == 0)
            *err = lost;
        return -1;
    }
    if (lowest == size)
        return 0;
    if (rank == lowest || (rc < 0 && strcmp(err->text, first.text) != 0))
        return -1;
    dt_err_set(err, DT_E_ELSEWHERE, "rank %d: %.480s", (int)lowest, first.text);
    return -1;
}
