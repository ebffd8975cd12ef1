/* SPDX-License-Identifier: Apache-2.0 */
#include "preflight/probes/port.h"
#include "tests/preflight/judged.h"

#include <arpa/inet.h>
#include <sys/socket.h>

TEST(whether_it_is_free)
{
    struct sockaddr_in any = {.sin_family = AF_INET};
    socklen_t len = sizeof any;
    struct dt_sheet *s = fresh_sheet();
    char owner[32];
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(bind(fd, (struct sockaddr *)&any, len) == 0 && listen(fd, 1) == 0);
    CHECK(getsockname(fd, (struct sockaddr *)&any, &len) == 0);
    struct dt_checkup c = {.root = "", .own_port = ntohs(any.sin_port)};
    dt_port_probe(&c, s);
    snprintf(owner, sizeof owner, "pid %d", (int)getpid());
    check_said(s, "fail: ");
    check_said(s, owner);
    close(fd);
    s = fresh_sheet();
    dt_port_probe(&c, s);
    check_said(s, "ok: port ");
    s = fresh_sheet();
    dt_port_probe(&(struct dt_checkup){.root = ""}, s);
    CHECK_EQ(s->remark_count, 0);
}
