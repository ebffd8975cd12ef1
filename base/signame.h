/* SPDX-License-Identifier: Apache-2.0 */
/* Signals by name, as Python's signal.Signals calls them: reports and environments are compared
 * with torchrun's, and the C library's own names differ from libc to libc. Pure. */
#ifndef DT_BASE_SIGNAME_H
#define DT_BASE_SIGNAME_H

#include "base/buf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* "SIGTERM"; NULL where Python knows no name, as for most real-time signals. */
const char *dt_signame(int number);

/* The same for a log line: "SIGTERM", or "signal 77". */
#define DT_SIGNAME_TEXT 32
const char *dt_signame_text(int number, char out[DT_SIGNAME_TEXT]);

/* The number of "SIGTERM" or "TERM", in any case; 0: no signal is called so. */
int dt_signame_number(const char *name, size_t len);

/* Whether a process can choose what the signal does, and we may: not SIGKILL, SIGSTOP, SIGCHLD,
 * and none of the signals of a crash. */
bool dt_signame_catchable(int number);

/* Walks "A,B , C": sets *NAME to the next name without white space around it. False at the end.
 * *AT starts as the list. */
bool dt_signame_next(const char **at, const char **name, size_t *len);

/* Appends "SIGHUP,SIGINT" for a set whose bit N is signal N; those without a name are left out. */
void dt_signame_list(uint64_t set, struct dt_buf *out);

#endif
