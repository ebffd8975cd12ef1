/* SPDX-License-Identifier: Apache-2.0 */
#include "base/journald.h"

#include "base/auto.h"

#include <inttypes.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

bool dt_journald_has_stderr(void)
{
    const char *stream = getenv("JOURNAL_STREAM"); /* device and inode of what systemd connected */
    uintmax_t device, inode;
    struct stat st;
    return stream && sscanf(stream, "%" SCNuMAX ":%" SCNuMAX, &device, &inode) == 2 &&
           fstat(STDERR_FILENO, &st) == 0 && st.st_dev == device && st.st_ino == inode;
}

/* A value with a newline in it goes behind its length. */
void dt_journald_put(struct dt_buf *entry, const char *name, const char *value)
{
    dt_buf_put_str(entry, name);
    if (strchr(value, '\n')) {
        dt_buf_put_u8(entry, '\n');
        dt_buf_put_u64(entry, strlen(value));
    } else {
        dt_buf_put_u8(entry, '=');
    }
    dt_buf_put_str(entry, value);
    dt_buf_put_u8(entry, '\n');
}

int dt_journald_send(const struct dt_buf *entry)
{
    static const struct sockaddr_un to = {.sun_family = AF_UNIX,
                                          .sun_path = "/run/systemd/journal/socket"};
    DT_AUTO_FD fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || entry->bad)
        return -1;
    ssize_t n =
        sendto(fd, entry->at, entry->len, MSG_NOSIGNAL, (const struct sockaddr *)&to, sizeof to);
    return n == (ssize_t)entry->len ? 0 : -1;
}
