/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes as text, in the standard alphabet with padding and without line ends (RFC 4648). Pure. */
#ifndef DT_BASE_BASE64_H
#define DT_BASE_BASE64_H

#include "base/buf.h"
#include "base/err.h"

void dt_base64_write(struct dt_buf *out, struct dt_bytes bytes);

/* Appends what TEXT stands for. All of it must be base64, as the writer above makes it. */
int dt_base64_read(struct dt_bytes text, struct dt_buf *out, struct dt_err *err);

#endif
