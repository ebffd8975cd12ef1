/* SPDX-License-Identifier: Apache-2.0 */
/* What is in a followed folder, and whether somebody writes it: what follow.h is told. */
#ifndef DT_AGENT_UPLOAD_SCAN_H
#define DT_AGENT_UPLOAD_SCAN_H

#include "agent/upload/follow.h"

#include <stdbool.h>

/* All ordinary files below DIR, sorted, but for temporary names. Links are not followed. A folder
 * that is not there yet has none. */
int dt_scan_folder(struct dt_follow_scan *out, const char *dir, struct dt_err *err);

/* Whether some process has the file open for writing, as far as the kernel tells us. */
bool dt_scan_is_written(const char *path);

/* Whether other hosts may see the folder too: it, or the nearest one above it that is there. */
bool dt_scan_is_shared(const char *dir);

#endif
