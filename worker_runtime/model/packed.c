/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_runtime/model/packed.h"

#include "worker_runtime/ops/nf4.h"

bool dt_packed_is_nf4(const struct dt_shape *s, const struct dt_tensor *t)
{
    return t->rank == 2 && t->unit > 0 && t->unit <= s->layers;
}

size_t dt_packed_numbers(const struct dt_tensor *t)
{
    return t->dims[0] * t->dims[1];
}

bool dt_packed_turns(const struct dt_shape *s)
{
    return s->family == DT_GPT2;
}

/* What stands behind a 16-bit tensor of an odd size begins with the next word. Biases of queries,
 * keys and values, which have to be one, have even sizes, as heads that are turned do. */
static size_t words_of(const struct dt_shape *s, const struct dt_tensor *t, enum dt_dtype elem)
{
    size_t numbers = dt_packed_numbers(t);
    if (dt_packed_is_nf4(s, t))
        return dt_nf4_parts_of(NULL, numbers).words;
    return (numbers * dt_dtype_size(elem) + sizeof(uint32_t) - 1) / sizeof(uint32_t);
}

struct dt_tensor *dt_packed_tensors(const struct dt_shape *s, enum dt_dtype elem,
                                    struct dt_err *err)
{
    struct dt_tensor *tensors = dt_shape_tensors(s, err);
    size_t count = dt_shape_tensor_count(s), offset = 0;
    for (size_t i = 0; tensors && i < count; i++) {
        struct dt_tensor *t = &tensors[i];
        if (i == 0 || t->unit != tensors[i - 1].unit)
            offset = 0;
        t->count = words_of(s, t, elem);
        t->offset = offset;
        offset += t->count;
    }
    return tensors;
}
