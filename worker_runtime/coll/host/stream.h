/* SPDX-License-Identifier: Apache-2.0 */
/* A copy that goes past the caches: for what is large and is next read by another core. */
#ifndef DT_WORKER_RUNTIME_COLL_HOST_STREAM_H
#define DT_WORKER_RUNTIME_COLL_HOST_STREAM_H

#include <stddef.h>

/* Others see it when dt_stream_end() is back, as if it had been written in the ordinary way. */
void dt_stream_copy(void *to, const void *from, size_t bytes);
void dt_stream_end(void);

#endif
