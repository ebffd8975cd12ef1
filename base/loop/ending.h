/* SPDX-License-Identifier: Apache-2.0 */
/* The end of an object that owns handles: counts what has not closed yet, and calls once when
 * nothing is left. A member of its owner; zeroed memory is one that has not begun. All calls belong
 * to the loop's thread. */
#ifndef DT_BASE_LOOP_ENDING_H
#define DT_BASE_LOOP_ENDING_H

#include <stdbool.h>
#include <uv.h>

struct dt_ending {
    int open; /* what was added and has not closed */
    bool begun;
    void (*release)(void *owner);
    void *owner;
    void (*on_closed)(void *arg);
    void *arg;
};

/* One more thing has to close first. Returns E, for what takes dt_ending_step() as its callback. */
struct dt_ending *dt_ending_add(struct dt_ending *e);

/* One of them has closed. ENDING is a struct dt_ending. May free the owner. */
void dt_ending_step(void *ending);

/* Closes HANDLE, of any of libuv's types, after adding it; its `data` is E's from then on. */
void dt_ending_close(struct dt_ending *e, void *handle);

/* When the last thing has closed: RELEASE(OWNER), which may free E, then ON_CLOSED(ARG). Either may
 * be NULL. Nothing is called from here: at least one thing closes after this call. */
void dt_ending_begin(struct dt_ending *e, void (*release)(void *owner), void *owner,
                     void (*on_closed)(void *arg), void *arg);

#endif
