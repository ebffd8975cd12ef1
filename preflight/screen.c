/* SPDX-License-Identifier: Apache-2.0 */
#include "preflight/screen.h"

#include <stdint.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

static size_t columns(void)
{
    struct winsize size;
    if (!isatty(STDOUT_FILENO))
        return SIZE_MAX;
    return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

struct dt_screen dt_screen_find(void)
{
    const char *no_colour = getenv("NO_COLOR");
    return (struct dt_screen){.colour = isatty(STDOUT_FILENO) && !(no_colour && *no_colour),
                              .columns = columns()};
}
