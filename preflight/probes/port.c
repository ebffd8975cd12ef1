/* SPDX-License-Identifier: Apache-2.0 */
#include "preflight/probes/port.h"

#include "base/addr.h"
#include "base/auto.h"
#include "base/port_owner.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>

/* Of all addresses of this host, IPv4 ones too. */
static int bind_to(int port, struct dt_addr *at)
{
    struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port)};
    struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int on = 1, off = 0;
    DT_AUTO_FD fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0) {
        memcpy(&at->sa, &six, at->len = sizeof six);
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    } else {
        fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        memcpy(&at->sa, &four, at->len = sizeof four);
    }
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    return bind(fd, (const struct sockaddr *)&at->sa, at->len) < 0 || listen(fd, 1) < 0 ? errno : 0;
}

void dt_port_probe(const struct dt_checkup *c, struct dt_sheet *sheet)
{
    char owner[192];
    struct dt_addr at = {0};
    if (c->own_port == 0)
        return;
    int refused = bind_to(c->own_port, &at);
    if (refused == 0)
        dt_sheet_remark(sheet, "port", DT_GRADE_OK, NULL, "port %d is free", c->own_port);
    else if (refused == EADDRINUSE)
        dt_sheet_remark(sheet, "port", DT_GRADE_FAIL,
                        "end that program if it is left from a dead job, or choose another port",
                        "%s", dt_port_owner_text(&at, owner, sizeof owner));
    else
        dt_sheet_remark(sheet, "port", DT_GRADE_FAIL, "choose another port",
                        "nobody can listen on port %d: %s", c->own_port, strerror(refused));
}
