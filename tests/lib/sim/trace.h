/* SPDX-License-Identifier: Apache-2.0 */
/* The story as a person reads it: simulated time, who, what. */
#ifndef DT_TESTS_SIM_TRACE_H
#define DT_TESTS_SIM_TRACE_H

#include "rendezvous/protocol/messages.h"

struct sim;

void sim_trace_line(struct sim *s, const char *who, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* "node03  hears world 4: seat 2 of 5, ranks 16 to 23 of 40". */
void sim_trace_message(struct sim *s, const char *who, const char *does,
                       const struct dt_message *m);

/* Macros, so that what nobody reads is not put together. */
#define sim_say(s, who, ...)                                                                       \
    do {                                                                                           \
        if ((s)->tracing)                                                                          \
            sim_trace_line(s, who, __VA_ARGS__);                                                   \
    } while (0)
#define sim_say_message(s, who, does, m)                                                           \
    do {                                                                                           \
        if ((s)->tracing)                                                                          \
            sim_trace_message(s, who, does, m);                                                    \
    } while (0)

#endif
