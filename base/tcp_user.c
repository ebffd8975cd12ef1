/* SPDX-License-Identifier: Apache-2.0 */
#include "base/tcp_user.h"

#include "base/auto.h"
#include "base/buf.h"
#include "base/fs.h"
#include "base/tcp_table.h"

#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
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

/* -- by the table ----------------------------------------------------------------------------- */

static enum dt_tcp_user find_in_tables(const struct dt_addr *theirs, const struct dt_addr *ours,
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

/* -- by a question ---------------------------------------------------------------------------- */

struct question {
    struct nlmsghdr head;
    struct inet_diag_req_v2 socket;
};

static bool make_question(const struct dt_addr *local, const struct dt_addr *remote,
                          struct question *q)
{
    struct dt_tcp_end from, to;
    if (!dt_tcp_end_of_addr(local, &from) || !dt_tcp_end_of_addr(remote, &to))
        return false;
    *q = (struct question){
        .head = {.nlmsg_len = sizeof *q,
                 .nlmsg_type = SOCK_DIAG_BY_FAMILY,
                 .nlmsg_flags = NLM_F_REQUEST},
        .socket = {.sdiag_family = AF_INET6, /* IPv4 as mapped addresses */
                   .sdiag_protocol = IPPROTO_TCP,
                   .idiag_states = UINT32_MAX,
                   .id = {.idiag_sport = htons((uint16_t)from.port),
                          .idiag_dport = htons((uint16_t)to.port),
                          .idiag_cookie = {INET_DIAG_NOCOOKIE, INET_DIAG_NOCOOKIE}}}};
    memcpy(q->socket.id.idiag_src, from.words, sizeof from.words);
    memcpy(q->socket.id.idiag_dst, to.words, sizeof to.words);
    return true;
}

/* Whether the kernel knows the socket at that end; it has answered when it took the question. */
static bool ask(int fd, const struct dt_addr *local, const struct dt_addr *remote,
                struct inet_diag_msg *out)
{
    struct question q;
    struct {
        struct nlmsghdr head;
        struct inet_diag_msg socket;
        uint8_t more[512];
    } answer;
    if (!make_question(local, remote, &q) || send(fd, &q, sizeof q, 0) != sizeof q)
        return false;
    ssize_t n = recv(fd, &answer, sizeof answer, MSG_DONTWAIT);
    if (n < (ssize_t)offsetof(typeof(answer), more) ||
        answer.head.nlmsg_type != SOCK_DIAG_BY_FAMILY)
        return false;
    *out = answer.socket;
    return true;
}

/* HIDDEN: it does not answer such questions here, not even about our own end. */
static enum dt_tcp_user ask_kernel(const struct dt_addr *theirs, const struct dt_addr *ours,
                                   uid_t *user)
{
    struct inet_diag_msg found;
    DT_AUTO_FD fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
    if (fd < 0 || !ask(fd, ours, theirs, &found))
        return DT_TCP_USER_HIDDEN;
    if (!ask(fd, theirs, ours, &found) || found.idiag_inode == 0)
        return DT_TCP_USER_GONE;
    *user = found.idiag_uid;
    return DT_TCP_USER_FOUND;
}

enum dt_tcp_user dt_tcp_user_find(const struct dt_addr *theirs, const struct dt_addr *ours,
                                  uid_t *user)
{
    enum dt_tcp_user found = ask_kernel(theirs, ours, user);
    return found == DT_TCP_USER_HIDDEN ? find_in_tables(theirs, ours, user) : found;
}
