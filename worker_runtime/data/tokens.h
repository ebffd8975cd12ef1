/* SPDX-License-Identifier: Apache-2.0 */
/* Files of tokens; the contract is dtrun/data.h. */
#ifndef DT_WORKER_RUNTIME_DATA_TOKENS_H
#define DT_WORKER_RUNTIME_DATA_TOKENS_H

#include "base/buf.h"

#include <dtrun/data.h>

/* The checks of dt_tokens_open() over bytes in memory: for the fuzzer. */
int dt_tokens_check(struct dt_bytes file, int raw_width, struct dt_err *err);

#endif
