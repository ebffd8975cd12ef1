/* SPDX-License-Identifier: Apache-2.0 */
/* Signals as numbers to be read, for a program that has the terminal. */
#ifndef DT_CTL_TOP_SIGNALS_H
#define DT_CTL_TOP_SIGNALS_H

#include "base/err.h"

/* From then on SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGTSTP, SIGCONT and SIGWINCH are noted instead of
 * obeyed; those that end a process only once, so that the next one ends even a process that waits
 * for its terminal. Returns a descriptor that is readable when one came; -1 and *err. Once in a
 * process. */
int dt_top_signals_open(struct dt_err *err);
/* The next one; 0: none came. */
int dt_top_signals_take(void);

/* While another program has the terminal: SIGINT and SIGQUIT are for that one alone, SIGTSTP stops
 * this one, too. Then all are noted as before. */
void dt_top_signals_yield(void);
void dt_top_signals_note_again(void);

/* Does what SIGNAL does in a process that does not note it: it ends this one, or stops it. Returns
 * when it goes on. */
void dt_top_signals_obey(int signal);

#endif
