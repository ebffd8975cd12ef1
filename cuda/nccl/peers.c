/* SPDX-License-Identifier: Apache-2.0 */
#include "cuda/nccl/peers.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

static void add(struct dt_peers *p, const struct dt_coll_member *m)
{
    int fd = (int)syscall(SYS_pidfd_open, m->pid, 0);
    if (fd < 0 && errno != ESRCH)
        return; /* a kernel without pidfds sees nobody end */
    p->fd[p->count] = (struct pollfd){.fd = fd, .events = POLLIN};
    p->who[p->count] = *m;
    if (fd < 0 && !p->first)
        p->first = &p->who[p->count];
    p->count++;
}

int dt_peers_open(struct dt_peers *p, const struct dt_coll_group *g, struct dt_err *err)
{
    *p = (struct dt_peers){0};
    p->fd = calloc((size_t)g->size, sizeof *p->fd);
    p->who = calloc((size_t)g->size, sizeof *p->who);
    if (!p->fd || !p->who) {
        dt_peers_close(p);
        return dt_err_set(err, DT_E_MEMORY, "no memory for a list of %d ranks", g->size);
    }
    for (int r = 0; r < g->size; r++) {
        const struct dt_coll_member *m = &g->members[r];
        if (r != g->rank && m->pid > 0 && m->host == g->members[g->rank].host)
            add(p, m);
    }
    return 0;
}

void dt_peers_close(struct dt_peers *p)
{
    for (int i = 0; i < p->count; i++)
        if (p->fd[i].fd >= 0)
            close(p->fd[i].fd);
    free(p->fd);
    free(p->who);
    *p = (struct dt_peers){0};
}

const struct dt_coll_member *dt_peers_gone(struct dt_peers *p)
{
    int n = p->count > 0 ? poll(p->fd, (nfds_t)p->count, 0) : 0;
    for (int i = 0; n > 0 && i < p->count; i++) {
        if (p->fd[i].fd < 0 || !p->fd[i].revents)
            continue;
        close(p->fd[i].fd);
        p->fd[i].fd = -1;
        if (!p->first)
            p->first = &p->who[i];
    }
    return p->first;
}
