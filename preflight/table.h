/* SPDX-License-Identifier: Apache-2.0 */
/* A sheet for people, what is worst first, and for programs. Pure. */
#ifndef DT_PREFLIGHT_TABLE_H
#define DT_PREFLIGHT_TABLE_H

#include "base/json_write.h"
#include "preflight/sheet.h"

/* Appends a line for each remark, for a terminal of so many columns, with colours if COLOUR. */
void dt_table_put(const struct dt_sheet *s, bool colour, size_t columns, struct dt_buf *out);

/* {"verdict": "warn", "remarks": [{"grade": "warn", "probe": "shm", "sentence": "...",
 * "advice": "..."}, ...], "traits": {"kernel": "6.1.0", ...},
 *  "speeds": [{"device": "GPU 3", "id": "GPU-...", "kind": "NVIDIA H100", "flops": 612...,
 *  "written": 24..., "got": 23...}, ...]} */
void dt_table_put_json(const struct dt_sheet *s, struct dt_json_writer *w);

#endif
