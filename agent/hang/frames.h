/* SPDX-License-Identifier: Apache-2.0 */
/* What the frames of a Python stack tell of what its thread does: whose code each is, and which
 * functions of PyTorch, of Python and of their neighbours wait, and for what. Rows of a table; a
 * function that is new there is a row here. Pure. */
#ifndef DT_AGENT_HANG_FRAMES_H
#define DT_AGENT_HANG_FRAMES_H

#include "agent/look/python_stack.h"
#include "rendezvous/protocol/stance.h"

/* Where a frame has to stand for its row to hold. */
enum dt_frame_place {
    DT_FRAME_ANYWHERE,  /* below the user's own code */
    DT_FRAME_INNERMOST, /* ... and nothing of Python's further inside; the thread is asleep */
    DT_FRAME_OUTERMOST, /* nothing called it: Python itself did */
};

struct dt_frame_row {
    const char *file, *function; /* patterns of fnmatch(3); FUNCTION: of the name's last part */
    enum dt_frame_place place;
    enum dt_doing doing;
    const char *collective; /* how the collective is called; NULL: as the function */
    const char *detail;     /* or NULL */
    bool joins;             /* another thread of Python's does what this one waits for */
};

/* How many of the DEPTH frames are the process's own: one that was forked out of the middle of a
 * program has the frames of its parent outside of them, for ever. */
size_t dt_frames_own(const struct dt_python_frame *frames, size_t depth);

/* The innermost frame of the user's own code, as an index; DEPTH: there is none. Where all is from
 * packages, it is the innermost that is neither Python's nor PyTorch's. */
size_t dt_frames_user(const struct dt_python_frame *frames, size_t depth);

/* The row that tells most about what a thread does inside of its frame USER: the first of enum
 * dt_doing, and of equal ones the outermost; *AT is its frame. NULL: no row fits. WHOLE: frame
 * DEPTH - 1 is the outermost of the process. */
const struct dt_frame_row *dt_frames_meaning(const struct dt_python_frame *frames, size_t depth,
                                             size_t user, bool whole, bool asleep, size_t *at);

/* "all_reduce" of "_exception_logger.<locals>.all_reduce". */
const char *dt_frame_name(const struct dt_python_frame *frame);

#endif
