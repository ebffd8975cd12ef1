/* SPDX-License-Identifier: Apache-2.0 */
/* In cuda/cudnn/load.c's place: a mock GPU has no cuDNN, whatever this host has. */
#include "cuda/cudnn/calls.h"

const struct dt_cudnn_calls *dt_cudnn_load(struct dt_err *err)
{
    dt_err_set(err, DT_E_RUNTIME, "a mock GPU has no cuDNN");
    return NULL;
}
