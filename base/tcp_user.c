/* SPDX-License-Identifier: Apache-2.0 */
#include "base/tcp_user.h"

#include "base/buf.h"
#include "base/fs.h"
#include "base/tcp_table.h"

#include <string.h>
#include <unistd.h>

/* Of a socket that its process has closed the kernel says that it is root's. */
bool dt_tcp_user_in(const char *table, bool v6, const struct dt_addr *theirs,
                    const struct dt_addr *ours, uid_t *user)
{
    struct dt_tcp_end their_end, our_end;
    struct dt_tcp_row row;
    if (!dt_tcp_end_of_addr(theirs, &their_end) || !dt_tcp_end_of_addr(ours, &our_end))
        return false;
    for (const char *line = table; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (!dt_tcp_row_parse(line, v6, &row) || row.inode == 0 ||
            !dt_tcp_end_is_same(&row.local, &their_end) ||
            !dt_tcp_end_is_same(&row.remote, &our_end))
            continue;
        *user = row.user;
        return true;
    }
    return false;
}

enum dt_tcp_user dt_tcp_user_find(const struct dt_addr *theirs, const struct dt_addr *ours,
                                  uid_t *user)
{
    static const char *const tables[] = {"/proc/self/net/tcp", "/proc/self/net/tcp6"};
    enum dt_tcp_user found = DT_TCP_USER_HIDDEN;
    for (int v6 = 0; v6 < 2 && found != DT_TCP_USER_FOUND; v6++) {
        struct dt_buf text = {0};
        if (access(tables[v6], R_OK) == 0)
            found = DT_TCP_USER_GONE;
        if (dt_fs_read(tables[v6], DT_TCP_TABLE_MAX, &text, NULL) == 0 &&
            dt_tcp_user_in(dt_buf_cstr(&text), v6, theirs, ours, user))
            found = DT_TCP_USER_FOUND;
        dt_buf_finish(&text);
    }
    return found;
}
