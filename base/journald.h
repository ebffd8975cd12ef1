/* SPDX-License-Identifier: Apache-2.0 */
/* The system's journal, for a program whose standard error is connected with it: entries with
 * fields of their own, which a line on standard error cannot have. */
#ifndef DT_BASE_JOURNALD_H
#define DT_BASE_JOURNALD_H

#include "base/buf.h"

#include <stdbool.h>

/* Whether systemd has connected our standard error with the journal: what we inherited from
 * somebody else, and was redirected since, is not. */
bool dt_journald_has_stderr(void);

/* Appends a field. NAME is of capitals, digits and underscores; VALUE may hold anything. */
void dt_journald_put(struct dt_buf *entry, const char *name, const char *value);

/* Hands the journal an entry. Waits for nobody. -1: it does not take it now. */
int dt_journald_send(const struct dt_buf *entry);

#endif
