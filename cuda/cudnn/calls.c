/* SPDX-License-Identifier: Apache-2.0 */
#include "cuda/cudnn/calls.h"

int dt_cudnn_check_version(size_t version, struct dt_err *err)
{
    if (version >= DT_CUDNN_OLDEST && version < DT_CUDNN_TOO_NEW)
        return 0;
    return dt_err_set(err, DT_E_RUNTIME,
                      "libcudnn.so.9 is of version %zu.%zu.%zu, and 9.10 or a later 9 is needed",
                      version / 10000, version % 10000 / 100, version % 100);
}
