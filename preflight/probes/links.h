/* SPDX-License-Identifier: Apache-2.0 */
/* Network interfaces: which are up, how fast, with which MTU, and whether NCCL and Gloo are told of
 * one that is there. */
#ifndef DT_PREFLIGHT_PROBES_LINKS_H
#define DT_PREFLIGHT_PROBES_LINKS_H

#include "preflight/probes/inside.h"

/* A host of many containers has one, or more, for each. */
#define DT_LINKS_MAX 4096

struct dt_link {
    char name[DT_PROBE_NAME];
    bool is_loopback, is_up, is_bridge;
    bool is_real; /* it has a device, or is a bond; where no such link is up, as in a container, it
                     is no bridge */
    int mtu;
    int64_t megabits; /* a second; -1: not told */
};

struct dt_links {
    size_t count;
    struct dt_link *at;      /* real ones first, and by name */
    const char *nccl, *gloo; /* NCCL_SOCKET_IFNAME and GLOO_SOCKET_IFNAME; NULL: not set */
};

/* Whether LIST, as NCCL takes it ("eth", "^docker,lo", "=eth0"), chooses an interface of NAME.
 * Pure.
 */
bool dt_links_match(const char *list, const char *name);

void dt_links_judge(const struct dt_links *l, int hosts, struct dt_sheet *sheet);
void dt_links_probe(const struct dt_checkup *c, struct dt_sheet *sheet);

#endif
