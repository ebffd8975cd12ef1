/* SPDX-License-Identifier: Apache-2.0 */
/* A job run by the real dtrun ($DT_RUN), as a test's shell line: its two streams are read as they
 * come, and every wait is for an event, under a ceiling of 60 s that only a hang reaches. TMPDIR is
 * a folder of the test program's own. */
#ifndef DT_TESTS_JOB_H
#define DT_TESTS_JOB_H

#include "base/buf.h"

#include <stdbool.h>
#include <sys/types.h>

enum { JOB_OUT, JOB_ERR };

struct job {
    pid_t pid;
    int fds[2];
    struct dt_buf text[2];
    int status; /* of waitpid(), once it is over */
    bool over;
};

/* ARGS: NAME=VALUE... as in env(1), then dtrun's; NULL-ended. The job dies with us. */
void job_start(struct job *j, const char *const *args);
/* The same, and the child calls PREPARE (may be NULL) before it becomes dtrun; j->fds are open by
 * then. */
void job_start_as(struct job *j, void (*prepare)(void *arg), void *arg, const char *const *args);
#define JOB_START_AS(j, prepare, arg, ...)                                                         \
    job_start_as((j), (prepare), (arg), (const char *const[]){__VA_ARGS__, NULL})
#define JOB_START(j, ...) job_start((j), (const char *const[]){__VA_ARGS__, NULL})

/* Starts it and waits for its end; returns as job_wait(). */
#define JOB(j, ...) (JOB_START((j), __VA_ARGS__), job_wait(j))

/* Waits until that stream holds WORDS; false when the job ends first. */
bool job_says(struct job *j, int stream, const char *words);

/* ... until they stand there COUNT times. */
bool job_says_times(struct job *j, int stream, const char *words, int count);

/* ... until its standard output has that many lines. */
bool job_says_lines(struct job *j, int count);

/* Reads both streams to their end. Returns the exit status, or 128 + the signal. */
int job_wait(struct job *j);
int job_stop(struct job *j, int signum); /* signals, then waits */

const char *job_out(struct job *j);
const char *job_err(struct job *j);
/* How often WORDS stand in TEXT. */
int count_words(const char *text, const char *words);

void job_finish(struct job *j);

/* Runs STORY as a user with few rights, in a child of ours if we are root, and as we are if not. */
void job_as_user(unsigned uid, void (*story)(const char *dir), const char *dir);
/* Whether that user can reach what was built; in a home folder it may not be so. */
bool job_user_can_run(unsigned uid);

/* port_take() as text. */
const char *free_port(char out[8]);

/* A folder of the test's own, removed with all in it by tmp_remove(). */
const char *tmp_make(char out[64]);
void tmp_remove(const char *dir);

/* The only entry of DIR, as a path. */
const char *only_entry(const char *dir, char *out, size_t size);
/* A file's text, kept; NULL: there is none. */
const char *read_text(const char *path);

/* What malloc() gave, until the program ends: reachable, so no leak. */
void *keep(void *memory);

#endif
