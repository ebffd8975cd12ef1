/* SPDX-License-Identifier: Apache-2.0 */
/* A real daemon process for a test: started on a free port, its log read as it comes, ended with
 * the test. Every wait is for an event, under a ceiling of 60 s that only a hang reaches. */
#ifndef DT_TESTS_DAEMON_H
#define DT_TESTS_DAEMON_H

#include "base/buf.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct daemon_process {
    pid_t pid;
    int log_fd;
    uint16_t port; /* of the first "listening on" line with a port */
    struct dt_buf log;
    int status; /* of waitpid(), once it is over */
    bool over;
};

/* Starts the program at PATH with the NULL-ended ARGS behind it and waits until its log holds
 * READY, or it ends. Dies with us. */
void daemon_start(struct daemon_process *d, const char *ready, const char *path,
                  const char *const *args);
#define DAEMON_START(d, path, ...)                                                                 \
    daemon_start((d), "listening on ", (path), (const char *const[]){__VA_ARGS__, NULL})

/* Waits until the log holds WORDS; false when the daemon ends first. */
bool daemon_log_has(struct daemon_process *d, const char *words);
/* How often WORDS stand in the log so far. */
int daemon_log_count(struct daemon_process *d, const char *words);

/* Waits for its end; returns the exit status, or 128 + the signal. */
int daemon_wait(struct daemon_process *d);
/* SIGTERM, then as daemon_wait(). Frees. */
int daemon_stop(struct daemon_process *d);

/* Resident memory in KiB: now, and the most there ever was. */
long daemon_rss(const struct daemon_process *d);
long daemon_rss_peak(const struct daemon_process *d);

#endif
