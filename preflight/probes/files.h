/* SPDX-License-Identifier: Apache-2.0 */
/* Files that all nodes should see alike: the script, and those that a person names. */
#ifndef DT_PREFLIGHT_PROBES_FILES_H
#define DT_PREFLIGHT_PROBES_FILES_H

#include "preflight/probes/inside.h"

#define DT_FILES_SCRIPT "script"
#define DT_FILES_TRAIT "file " /* and the path */

void dt_files_probe(const struct dt_checkup *c, struct dt_sheet *sheet);

#endif
