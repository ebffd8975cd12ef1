/* SPDX-License-Identifier: Apache-2.0 */
/* The server's journal on a simulated disk, which takes its time: what has come while it was busy
 * goes together, and what was not synced may be lost. */
#ifndef DT_TESTS_SIM_JOURNAL_H
#define DT_TESTS_SIM_JOURNAL_H

struct sim;
struct sim_server;

/* What KEY stands for has changed: a node of the exclude table; "": the run. */
void sim_journal_note(struct sim *s, const char *key);
/* Begins to write what has changed, unless the disk is busy. */
void sim_journal_sync(struct sim *s);

/* Whatever was given to the kernel survives the server ... */
void sim_journal_flush(struct sim *s);
/* ... what is not safe does not survive the host ... */
void sim_journal_drop(struct sim_server *v);
/* ... and nothing the loss of the disk. */
void sim_journal_wipe(struct sim_server *v);
void sim_journal_restore(struct sim *s);

#endif
