/* SPDX-License-Identifier: Apache-2.0 */
/* The page that the environment names, for all that write to it in a worker: libdtrun, and NCCL's
 * profiler plugin in programs that know nothing of libdtrun. */
#ifndef DT_WORKER_RUNTIME_TELEMETRY_PAGE_MAP_H
#define DT_WORKER_RUNTIME_TELEMETRY_PAGE_MAP_H

#include "rendezvous/protocol/page.h"

struct dt_page_writer;

/* What the environment names is looked at before it is written to: the number may be left over from
 * another program, and then be somebody's file. The descriptor stays as it was found, since others
 * may open the page a second time. NULL: there is no page; else the caller unmaps its DT_PAGE_SIZE
 * bytes. */
struct dt_page *dt_page_map(void);

/* The page that W (dtrun/page.h) writes to, for what the runtime alone tells there; W's. */
struct dt_page *dt_page_of(const struct dt_page_writer *w);

#endif
