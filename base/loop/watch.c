/* SPDX-License-Identifier: Apache-2.0 */
#include "base/loop/watch.h"

int dt_watch_init(uv_loop_t *loop, uv_poll_t *poll, int fd, const char *what, struct dt_err *err)
{
    int rc = uv_poll_init(loop, poll, fd);
    if (rc == 0)
        return 0;
    return dt_err_set(
        err, DT_E_RUNTIME, "cannot watch %s: %s%s", what, uv_strerror(rc),
        rc == UV_ENOSPC ? "; sysctl fs.epoll.max_user_watches says how much may be watched" : "");
}
