/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_runtime/inside.h"
#include "worker_runtime/zero/create.h"

struct dt_zero *dt_zero_create(struct dt_context *context, struct dt_coll *g,
                               const struct dt_unit *units, size_t count,
                               const struct dt_zero_options *o, struct dt_err *err)
{
    struct dt_zero_place place = {.device = dt_context_device(context),
                                  .group = g,
                                  .sharing = 1,
                                  .threads = dt_context_threads(context)};
    size_t local = (size_t)dt_context_local_world(context), size = (size_t)dt_coll_size(g);
    if (!place.device->coll) /* GPUs share nothing */
        place.sharing = local < size ? local : size;
    return dt_zero_create_on(&place, units, count, o, err);
}
