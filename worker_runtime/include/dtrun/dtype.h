/* SPDX-License-Identifier: Apache-2.0 */
/* Element types: of buffers that travel, and of tensors in files. */
#ifndef DTRUN_DTYPE_H
#define DTRUN_DTYPE_H

#include <stddef.h>

enum dt_dtype { DT_F32, DT_BF16, DT_F16, DT_F64, DT_I32, DT_I64, DT_U8, DT_U16, DT_DTYPES };

static inline size_t dt_dtype_size(enum dt_dtype t)
{
    static const size_t size[DT_DTYPES] = {4, 2, 2, 8, 4, 8, 1, 2};
    return size[t];
}

#endif
