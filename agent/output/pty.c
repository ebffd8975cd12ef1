/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/output/pty.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

void dt_pty_resize(int end, int like)
{
    struct winsize size;
    if (ioctl(like, TIOCGWINSZ, &size) == 0)
        ioctl(end, TIOCSWINSZ, &size);
}

/* Without output processing: \n becomes \r\n at our terminal, not twice. Nothing is typed here, so
 * nothing is to be echoed either. */
static int make_alike(int worker_end, int like)
{
    struct termios t;
    if (tcgetattr(like, &t) < 0)
        return -1;
    t.c_oflag &= ~(tcflag_t)OPOST;
    t.c_lflag &= ~(tcflag_t)ECHO;
    return tcsetattr(worker_end, TCSANOW, &t);
}

int dt_pty_open(int like, int ends[2], struct dt_err *err)
{
    char path[64];
    ends[1] = -1;
    ends[0] = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
    if (ends[0] >= 0 && grantpt(ends[0]) == 0 && unlockpt(ends[0]) == 0 &&
        ptsname_r(ends[0], path, sizeof path) == 0)
        ends[1] = open(path, O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (ends[1] >= 0 && make_alike(ends[1], like) == 0) {
        dt_pty_resize(ends[0], like);
        return 0;
    }
    int errnum = errno;
    for (int i = 0; i < 2; i++)
        if (ends[i] >= 0)
            close(ends[i]);
    return dt_err_errno(err, DT_E_RUNTIME, errnum, "cannot make a pseudo-terminal");
}
