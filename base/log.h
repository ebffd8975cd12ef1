/* SPDX-License-Identifier: Apache-2.0 */
/* Log lines for people (text) or machines (one JSON object a line), on standard error.
 *
 * error: a person must act. warn: we coped. info: a life event. debug: each message. A line is a
 * fact with names and numbers. The sink is the one piece of global state in the project: a log that
 * had to be handed down through every call would be used less. One write() per line, so that lines
 * of several processes do not mix. A reader that has stopped reading (a pager, a terminal after
 * Ctrl-S) holds us up for a second, once; what finds no room then is left out.
 *
 * Where systemd has connected standard error with its journal, a text line goes there as an entry
 * with a priority and fields, and without the time, which the journal has itself. */
#ifndef DT_BASE_LOG_H
#define DT_BASE_LOG_H

#include "base/clock.h"
#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

enum dt_log_level { DT_LOG_ERROR, DT_LOG_WARN, DT_LOG_INFO, DT_LOG_DEBUG };
enum dt_log_format { DT_LOG_TEXT, DT_LOG_JSON };

/* ROLE names the program in each line; the pointer is kept. Before: "dtrun", info, text. */
void dt_log_open(const char *role, enum dt_log_level level, enum dt_log_format format);

bool dt_log_wants(enum dt_log_level level);

/* What a line is about. Its words say that too; these are for programs: members of a JSON line, and
 * fields of the system's journal. */
struct dt_log_about {
    const char *kind, *run, *node; /* NULL or "": of none */
    int round, rank;               /* -1: of none */
};

/* A line about ABOUT. */
void dt_log_about(enum dt_log_level level, const struct dt_log_about *about, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* What every line is about that does not say otherwise: the job of this process. Before there are
 * threads; the strings are kept. */
void dt_log_set_job(const char *run, const char *node);
void dt_log_set_round(int round); /* any thread */

/* A line of another form, with its newline, written as a log line is. */
void dt_log_plain(const char *line);

/* For others that write where the log does: OPEN says whether what they wrote last lacks the end of
 * its line. Our next line then ends that one first. From any thread. */
void dt_log_note_open_line(bool open);
/* Whether the caller, who is about to write there without the log, has to end such a line. */
bool dt_log_take_open_line(void);

void dt_error(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void dt_warn(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void dt_info(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void dt_debug(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Our own mistake: a state that cannot be. Logged as an error; never for bad input. */
void dt_bug(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

int dt_log_level_from(const char *name, enum dt_log_level *out, struct dt_err *err);
int dt_log_format_from(const char *name, enum dt_log_format *out, struct dt_err *err);

/* Keeps a peer from filling the disk through our log: at most BURST lines, then one more each EVERY
 * ms. Pure. */
struct dt_log_limit {
    int burst;
    dt_ms every;
    bool used; /* zeroed memory with the two above is a limit that nothing has passed yet */
    int tokens;
    dt_ms last;
    uint64_t held_back; /* lines not written since the last one that was */
};

/* True when a line may be written now. *HELD_BACK then says how many were not since the last. */
bool dt_log_limit_pass(struct dt_log_limit *l, dt_ms now, uint64_t *held_back);

#endif
