/* SPDX-License-Identifier: Apache-2.0 */
/* Two hosts in network namespaces, and a cable between them that can be pulled. */
#ifndef DT_TESTS_CABLE_H
#define DT_TESTS_CABLE_H

#include "tests/lib/check.h"
#include "tests/lib/job.h"

#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

#define ADDR_0 "10.213.77.1"
#define ADDR_1 "10.213.77.2"

struct cable {
    char names[2][32];
};

/* $A and $B in the words are the two namespaces. */
static inline int run_ip(const struct cable *c, const char *what)
{
    setenv("A", c->names[0], 1);
    setenv("B", c->names[1], 1);
    return system(what);
}

static inline void cable_remove(const struct cable *c)
{
    run_ip(c, "exec 2>/dev/null; ip netns del $A; ip netns del $B");
}

/* One machine each; the pair of virtual cards is born inside, so that names do not collide. */
static inline void cable_make(struct cable *c)
{
    for (int i = 0; i < 2; i++)
        snprintf(c->names[i], sizeof c->names[i], "dtrun-test-%d-%d", (int)getpid(), i);
    if (geteuid() != 0)
        SKIP("needs root, for network namespaces");
    if (run_ip(c, "exec 2>/dev/null; ip netns add $A && ip netns add $B && "
                  "ip -n $A link add cable type veth peer name cable netns $B && "
                  "ip -n $A addr add " ADDR_0 "/24 dev cable && "
                  "ip -n $B addr add " ADDR_1 "/24 dev cable && "
                  "for n in $A $B; do ip -n $n link set lo up && ip -n $n link set cable up || "
                  "exit 1; done") != 0) {
        cable_remove(c);
        SKIP("ip cannot make network namespaces with a cable between them here");
    }
}

static inline void cable_pull(const struct cable *c)
{
    CHECK_EQ(run_ip(c, "ip -n $B link set cable down"), 0);
}

static inline void enter_namespace(void *arg)
{
    char path[96];
    snprintf(path, sizeof path, "/run/netns/%s", (const char *)arg);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || setns(fd, CLONE_NEWNET) < 0)
        _exit(126);
    close(fd);
}

#define START_ON(c, i, j, ...) JOB_START_AS(j, enter_namespace, (c)->names[i], __VA_ARGS__)

#endif
