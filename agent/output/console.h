/* SPDX-License-Identifier: Apache-2.0 */
/* One of our own descriptors, stdout or stderr, and who is speaking there. Streams pass their bytes
 * on unchanged, or speak in lines with a prefix: a line that had to be shown in parts is ended when
 * another speaker comes between, and goes on with its prefix again.
 *
 * When nobody reads there any more the console is silent and takes everything. */
#ifndef DT_AGENT_OUTPUT_CONSOLE_H
#define DT_AGENT_OUTPUT_CONSOLE_H

#include "agent/output/lines.h"
#include "base/clock.h"
#include "base/err.h"

#include <stdbool.h>
#include <uv.h>

struct dt_console;

/* A stream that speaks in lines; the stream keeps it, zeroed at first but for prefix and rank. */
struct dt_speaker {
    struct dt_lines lines;
    const char *prefix;
    int local_rank;
};

/* Lines that several ranks say alike are shown once. Zeroed: they are not. */
struct dt_console_collapse {
    int ranks;
    dt_ms moment;
    char *(*prefix)(void *arg, const int *local_ranks, size_t count); /* allocated, or NULL */
    void *arg;
};

/* FD stays the caller's; TELL as of dt_sink_open(). */
struct dt_console *dt_console_open(int fd, const struct dt_console_collapse *collapse,
                                   uv_async_t *tell, struct dt_err *err);

void dt_console_pass(struct dt_console *c, struct dt_bytes bytes);
void dt_console_say(struct dt_console *c, struct dt_speaker *who, struct dt_bytes bytes, dt_ms now);
/* Shows the unfinished line of WHO as it is; ends it. */
void dt_console_say_unfinished(struct dt_console *c, struct dt_speaker *who);
void dt_console_end_speech(struct dt_console *c, struct dt_speaker *who);

/* Shows what has been held for others to say the same until NOW (DT_FOREVER: all), and returns when
 * to ask again. */
dt_ms dt_console_show_held(struct dt_console *c, dt_ms now);

/* Nobody is waited for there any more: it is silent, and what has not been written is not. */
void dt_console_give_up(struct dt_console *c);

/* Nobody reads there: nothing need be brought any more. */
bool dt_console_is_silent(struct dt_console *c);
/* ... because its reader closed the pipe, as head(1) does. */
bool dt_console_is_lost(struct dt_console *c);

/* As of a sink. */
bool dt_console_has_room(struct dt_console *c);
bool dt_console_is_empty(struct dt_console *c);

void dt_console_close(struct dt_console *c);

/* Whether two descriptors lead to one place, so that the order of what is written to them shows. */
bool dt_console_same(int a, int b);

#endif
