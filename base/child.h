/* SPDX-License-Identifier: Apache-2.0 */
/* Another program that does a piece of work for this process. It leads a process group of its own,
 * so that it can be ended with all that it starts; no signal is blocked or ignored as it may be
 * here; it reads what it is given, or nothing; what it prints on either stream comes through one
 * pipe, which is at its end when nobody writes any more. Whoever starts a child waits for it. */
#ifndef DT_BASE_CHILD_H
#define DT_BASE_CHILD_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct dt_child_order {
    const char *path; /* of the program */
    char *const *argv, *const *env;
    const char *dir;  /* where it works; NULL: here */
    const int *input; /* what it reads; NULL: nothing */
    const int *keep;  /* descriptors that it gets under the same numbers */
    size_t keep_count;
    bool
        session; /* it leads one, too: what it starts in groups of their own can be found by that */
};

struct dt_child {
    pid_t pid;
    int output; /* to read from; closes at exec, and is the caller's to close */
};

/* 0, or an errno value: then there is no child. */
int dt_child_start(struct dt_child *c, const struct dt_child_order *o);

/* The environment of this process, with VARIABLES ("NAME=value") in place of what it has under
 * those names. The list is to be freed, its strings are not copies. NULL: no memory. */
char **dt_child_env(char *const *variables, size_t count);

#endif
