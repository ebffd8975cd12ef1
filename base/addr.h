/* SPDX-License-Identifier: Apache-2.0 */
/* Socket addresses as people write them, and ranges of them. IPv4 peers of a dual-stack socket
 * count as IPv4. */
#ifndef DT_BASE_ADDR_H
#define DT_BASE_ADDR_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

struct dt_addr {
    struct sockaddr_storage sa;
    socklen_t len;
};

#define DT_ADDR_TEXT 128 /* a path of sockaddr_un, and "unix:" */

/* Whether TEXT has a form that dt_addr_parse() takes. Looks nothing up. */
int dt_addr_check(const char *text, struct dt_err *err);

/* "HOST:PORT", "HOST", "[IPV6]:PORT", "*:PORT" (every address), "unix:/PATH" or "/PATH". Host names
 * are looked up, which can block: for start-up only. */
int dt_addr_parse(const char *text, uint16_t default_port, struct dt_addr *out, struct dt_err *err);

/* The same without a look-up: false where TEXT has the name of a host, or cannot be an address. */
bool dt_addr_parse_number(const char *text, uint16_t default_port, struct dt_addr *out);

/* The same for who connects: up to MAX addresses of that host, the preferred one first. Text that
 * cannot be an address is DT_E_USAGE; a name not known, perhaps not yet, is DT_E_RUNTIME. */
int dt_addr_resolve(const char *text, uint16_t default_port, struct dt_addr *out, size_t max,
                    size_t *count, struct dt_err *err);

/* "127.0.0.1:29400", "[::1]:29400", "unix:/run/x", or "a unix socket" for one without a name. */
const char *dt_addr_text(const struct dt_addr *a, char *out, size_t size);

/* What of an address tells one host from another, zeros behind it. Of an IPv6 address that is its
 * network of 64 bits, as one host has all of that. All unix sockets are one. */
struct dt_addr_host {
    uint8_t bytes[9];
};
struct dt_addr_host dt_addr_host(const struct dt_addr *a);

/* Whether A and B are the same address of the Internet, whatever their ports. */
bool dt_addr_is_same_ip(const struct dt_addr *a, const struct dt_addr *b);

/* A loopback address, or no address of the Internet: only this machine can be there. */
bool dt_addr_is_local(const struct dt_addr *a);

/* How this host is called by others: its name in the resolver that has a dot in it, else the plain
 * one. Looks it up, which can block. */
void dt_addr_own_name(char *out, size_t size);

/* A range as in 10.0.0.0/8 or fd00::/8; a bare address is a range of one. */
struct dt_cidr {
    int family;
    uint8_t bytes[16];
    unsigned bits;
};

int dt_cidr_parse(const char *text, struct dt_cidr *out, struct dt_err *err);

/* Unix sockets are in no range. */
bool dt_cidr_contains(const struct dt_cidr *c, const struct dt_addr *a);
/* Whether A is in one of COUNT of them. */
bool dt_cidr_any_contains(const struct dt_cidr *c, size_t count, const struct dt_addr *a);

#endif
