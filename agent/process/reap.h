/* SPDX-License-Identifier: Apache-2.0 */
/* Children that are over, and descendants that are not yet: what a process does that answers for a
 * whole tree. Who calls dt_reap_adopt() becomes the parent of every descendant whose own parent
 * dies, so in the end each of them is a child, and having no child means that nobody is left. */
#ifndef DT_AGENT_PROCESS_REAP_H
#define DT_AGENT_PROCESS_REAP_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

void dt_reap_adopt(void);

enum dt_reaped { DT_REAP_ONE, DT_REAP_NONE_YET, DT_REAP_NO_CHILDREN };

/* Takes one child that is over. */
enum dt_reaped dt_reap_next(pid_t *pid, int *status);

/* Sends SIGNUM to each descendant of this process (GROUP 0) or to those of that process group;
 * then SIGCONT, as one that is stopped would not see it. Returns how many there
 * were. A descendant that forks meanwhile may escape one call: who must have them all calls again
 * until there are no children. */
size_t dt_reap_signal(pid_t group, int signum);

/* The same to each descendant of that session. */
size_t dt_reap_signal_session(pid_t session, int signum);

/* Our children as they are now, to be freed; none is NULL and *COUNT 0, and so is no memory. */
pid_t *dt_reap_children(size_t *count);

/* Kills each descendant but STRANGERS and what is below them; returns how many there were. */
size_t dt_reap_kill_but(const pid_t *strangers, size_t count);

/* Whether a process below process ROOT (0: us) is of session SESSION. */
bool dt_reap_has_session(pid_t root, pid_t session);

/* "4242 (python3), ..." of what is below process ROOT (0: us), for a log line, cut to SIZE. NULL:
 * nothing is, which one may learn before the guard has said so. */
const char *dt_reap_describe(pid_t root, char *out, size_t size);

#endif
