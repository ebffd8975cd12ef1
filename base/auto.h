/* SPDX-License-Identifier: Apache-2.0 */
/* Scope-exit helpers for what has no order of teardown: a descriptor, a FILE, a block of memory. */
#ifndef DT_BASE_AUTO_H
#define DT_BASE_AUTO_H

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static inline void dt_auto_close_fd(int *fd)
{
    if (*fd >= 0)
        close(*fd);
}

static inline void dt_auto_close_file(FILE **f)
{
    if (*f)
        fclose(*f);
}

static inline void dt_auto_free(void *p)
{
    free(*(void **)p);
}

#define DT_AUTO_FD __attribute__((cleanup(dt_auto_close_fd))) int
#define DT_AUTO_FILE __attribute__((cleanup(dt_auto_close_file))) FILE *
#define DT_AUTO_FREE __attribute__((cleanup(dt_auto_free)))

#endif
