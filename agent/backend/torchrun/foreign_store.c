/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/backend/torchrun/foreign_store.h"

#include "agent/backend/store_host.h"

#include <errno.h>
#include <netinet/in.h>
#include <unistd.h>

/* Where a worker is to listen soon. As with torchrun, somebody else may take it first. */
static int find_port(int *port, struct dt_err *err)
{
    struct sockaddr_in at = {.sin_family = AF_INET};
    socklen_t len = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int rc = fd < 0 || bind(fd, (struct sockaddr *)&at, len) < 0 ||
                     getsockname(fd, (struct sockaddr *)&at, &len) < 0
                 ? dt_err_errno(err, DT_E_RUNTIME, errno, "a free port for the workers' store")
                 : 0;
    if (fd >= 0)
        close(fd);
    *port = ntohs(at.sin_port);
    return rc;
}

static int serve(struct dt_foreign_store *s, struct dt_err *err)
{
    struct dt_plan plan = *s->plan;
    struct dt_addr bound;
    plan.endpoint_port = 0; /* that one is taken */
    s->server = dt_store_host_open(s->loop, &plan, s->addr, &bound, err);
    if (!s->server)
        return -1;
    s->port = dt_store_host_port(&bound);
    return 0;
}

int dt_foreign_store_prepare(struct dt_foreign_store *s, bool elders, struct dt_err *err)
{
    if (elders)
        return find_port(&s->port, err);
    return s->server ? dt_store_server_renew(s->server, err) : serve(s, err);
}
