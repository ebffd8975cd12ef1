/* SPDX-License-Identifier: Apache-2.0 */
/* The terminal while it shows pictures, and how it was before. */
#ifndef DT_CTL_TOP_TERMINAL_H
#define DT_CTL_TOP_TERMINAL_H

#include "base/err.h"
#include "ctl/top/picture.h"

#include <stdbool.h>
#include <termios.h>

struct dt_terminal {
    int in, out;
    bool colours;
    bool entered, saved;
    struct termios before;   /* where it is saved */
    struct dt_picture shown; /* of no rows: what it shows is not known */
};

/* Whether this process has a terminal that can show pictures: both descriptors are one, and TERM
 * says no less. */
bool dt_terminal_is_there(int in, int out);

void dt_terminal_init(struct dt_terminal *t, int in, int out);

/* Keys come as they are pressed, without their characters being shown; signals of keys stay. The
 * screen of before is kept, and dt_terminal_leave() brings it back. Each may be called again. */
int dt_terminal_enter(struct dt_terminal *t, struct dt_err *err);
void dt_terminal_leave(struct dt_terminal *t);

/* Enters again, after somebody else had the terminal while this process was stopped. */
int dt_terminal_enter_again(struct dt_terminal *t, struct dt_err *err);

/* 80 x 24 where it does not say. */
void dt_terminal_size(const struct dt_terminal *t, int *rows, int *columns);

/* NEXT becomes what is shown; the picture is the terminal's from then on. -1: it takes no bytes.
 * A signal does not cut it off. */
int dt_terminal_show(struct dt_terminal *t, struct dt_picture *next);
/* The next picture is drawn whole. */
void dt_terminal_forget(struct dt_terminal *t);

#endif
