/* SPDX-License-Identifier: Apache-2.0 */
#include "rendezvous/daemon/systemd.h"

#include "base/auto.h"
#include "base/str.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#define FIRST_FD 3 /* fixed by the protocol */
#define MOST_FDS 64

static int64_t number_from(const char *name, int64_t max)
{
    const char *text = getenv(name);
    int64_t v;
    return text && dt_str_to_int(text, 0, max, &v, NULL) == 0 ? v : 0;
}

int dt_systemd_take_sockets(int *first)
{
    bool mine = number_from("LISTEN_PID", INT32_MAX) == getpid();
    int count = mine ? (int)number_from("LISTEN_FDS", MOST_FDS) : 0;
    unsetenv("LISTEN_PID");
    unsetenv("LISTEN_FDS");
    unsetenv("LISTEN_FDNAMES");
    for (int i = 0; i < count; i++)
        fcntl(FIRST_FD + i, F_SETFD, FD_CLOEXEC);
    *first = FIRST_FD;
    return count;
}

int dt_systemd_notify(struct dt_err *err, const char *fmt, ...)
{
    const char *path = getenv("NOTIFY_SOCKET");
    if (!path || (*path != '/' && *path != '@'))
        return 0;
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    size_t len = strlen(path);
    if (len >= sizeof to.sun_path)
        return dt_err_set(err, DT_E_RUNTIME, "NOTIFY_SOCKET is too long for a socket path");
    memcpy(to.sun_path, path, len);
    if (*path == '@')
        to.sun_path[0] = '\0'; /* abstract */
    char text[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    DT_AUTO_FD fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len);
    if (fd < 0 || sendto(fd, text, strlen(text), MSG_NOSIGNAL, (struct sockaddr *)&to, size) < 0)
        return dt_err_errno(err, DT_E_RUNTIME, errno, "cannot notify %s", path);
    return 0;
}

dt_ms dt_systemd_watchdog(void)
{
    int64_t pid = number_from("WATCHDOG_PID", INT32_MAX);
    if (pid != 0 && pid != getpid())
        return 0;
    dt_ms half = number_from("WATCHDOG_USEC", INT64_MAX) / 1000 / 2;
    return half;
}
