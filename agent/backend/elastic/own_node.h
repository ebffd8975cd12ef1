/* SPDX-License-Identifier: Apache-2.0 */
/* The machine that this agent runs on: what it is called, whether a host that people wrote is it,
 * and how others reach it. */
#ifndef DT_AGENT_BACKEND_ELASTIC_OWN_NODE_H
#define DT_AGENT_BACKEND_ELASTIC_OWN_NODE_H

#include "base/addr.h"

#include <stdbool.h>
#include <stddef.h>

/* "localhost", or an address of loopback: each host is that to itself. */
bool dt_own_node_is_loopback(const char *host);

/* "localhost", an address of loopback or of one of our interfaces, our own name, or a name that
 * leads to such an address. Looks names up, which can block: for start-up only. */
bool dt_own_node_is(const char *host);

/* Where others reach this node that connected from LOCAL to the endpoint's HOST: the address alone.
 * Never a name that somebody would have to look up, but for one case. When LOCAL is loopback
 * although HOST is not, this is that host, and all others know it by HOST.
 *
 * When HOST is "localhost" the others, if there may be any, gave it another name: they are told an
 * address of ours that leads here from outside, the one that our own name has if it has one. Can
 * block for that. */
void dt_own_node_addr(const char *host, const struct dt_addr *local, bool others, char *out,
                      size_t size);

/* Its host name. */
void dt_own_node_name(char *out, size_t size);
/* The id of this boot, which tells a host from itself before it was started anew; "" unknown. */
void dt_own_node_boot(char *out, size_t size);

#endif
