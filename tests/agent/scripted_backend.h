/* SPDX-License-Identifier: Apache-2.0 */
/* An elastic backend that plays a script: it waits for what the agent says, line by line, and
 * answers as the line tells, from the loop. Each call is noted, for the story to read. What is not
 * in the script ends the process with 99. */
#ifndef DT_TESTS_AGENT_SCRIPTED_BACKEND_H
#define DT_TESTS_AGENT_SCRIPTED_BACKEND_H

#include "agent/backend/backend.h"

enum scripted_call {
    S_END, /* of the script */
    S_JOIN,
    S_BARRIER,
    S_FAILED,
    S_LEAVE,
    S_ALL_RUN, /* a tell() in which all workers run */
    S_AT_STEP, /* ... in which training is at step 7 */
    S_FAST,    /* ... and tells how many tokens it takes a second */
    S_OVERDUE, /* ... and does not tell that, as the step is old */
    S_CLOSE,   /* of what lingers until it has answered; not in a script, it does not */
};

enum scripted_answer {
    A_NOTHING,
    A_WORLD,
    A_STOP,
    A_KILL,
    A_CLOSED,
    A_OVER,
    A_GIVE_UP,
    A_SIGNAL,
    A_RESIZE, /* of the terminal */
    A_LOST,   /* the signal that says so of a job */
    A_TAIL,   /* somebody reads what the workers print */
};

struct scripted_line {
    enum scripted_call call;
    enum scripted_answer answer;
    const char *words;   /* news of a world, why of the others */
    int round, restarts; /* of a world: the second of two nodes, of two workers each */
    int prev;            /* ... first rank in the round before; 0: none */
    int size;            /* ... of another size, and this node is the first; 0: 4, and it is not */
    enum dt_close_kind kind;
};

/* What dt_backend_elastic_open() of this process will play, and where it notes the calls. */
void scripted_backend_play(const struct scripted_line *script, int notes);

#endif
