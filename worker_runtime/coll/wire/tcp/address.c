/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_runtime/coll/wire/tcp/address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* In the host's own order of bytes: hosts of different order could not read each other's numbers
 * either, and are told so here. */
#define CARD_MAGIC 0x64745733u

struct packed { /* a card when it travels */
    uint32_t magic;
    uint16_t family; /* 4 or 6 */
    uint16_t port;
    uint8_t address[16];
    struct dt_tcp_secrets secrets;
    uint8_t spare[8];
};
_Static_assert(sizeof(struct packed) == DT_TCP_CARD, "a card has no holes");

static socklen_t family_len(int family)
{
    return family == AF_INET    ? sizeof(struct sockaddr_in)
           : family == AF_INET6 ? sizeof(struct sockaddr_in6)
                                : 0;
}

/* One that other hosts can use too: those of a link alone (fe80::) need to know by which link. */
static bool is_ours_alone(const struct sockaddr *a)
{
    if (a->sa_family == AF_INET)
        return ntohl(((const struct sockaddr_in *)(const void *)a)->sin_addr.s_addr) >> 24 == 127;
    const struct in6_addr *six = &((const struct sockaddr_in6 *)(const void *)a)->sin6_addr;
    return IN6_IS_ADDR_LOOPBACK(six) || IN6_IS_ADDR_LINKLOCAL(six);
}

static void keep(const struct sockaddr *a, struct sockaddr_storage *out, socklen_t *len)
{
    *len = family_len(a->sa_family);
    memset(out, 0, sizeof *out);
    memcpy(out, a, *len);
    if (a->sa_family == AF_INET)
        ((struct sockaddr_in *)out)->sin_port = 0;
    else
        ((struct sockaddr_in6 *)out)->sin6_port = 0;
}

/* From which of our addresses datagrams to HOST would go; none is sent. */
static bool towards(const char *host, struct sockaddr_storage *out, socklen_t *len)
{
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_DGRAM}, *found, *i;
    char plain[256];
    bool ok = false;
    snprintf(plain, sizeof plain, "%s", *host == '[' ? host + 1 : host);
    if (*host == '[')
        plain[strcspn(plain, "]")] = '\0';
    if (getaddrinfo(plain, "9", &hints, &found) != 0)
        return false;
    for (i = found; i && !ok; i = i->ai_next) {
        struct sockaddr_storage own = {0};
        socklen_t n = sizeof own;
        int fd = socket(i->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        ok = fd >= 0 && family_len(i->ai_family) > 0 &&
             connect(fd, i->ai_addr, i->ai_addrlen) == 0 &&
             getsockname(fd, (struct sockaddr *)&own, &n) == 0 &&
             !is_ours_alone((struct sockaddr *)&own);
        if (ok)
            keep((struct sockaddr *)&own, out, len);
        if (fd >= 0)
            close(fd);
    }
    freeaddrinfo(found);
    return ok;
}

/* The first address of INTERFACE (NULL: of any that is up), IPv4 before IPv6. */
static bool of_interface(const char *interface, struct sockaddr_storage *out, socklen_t *len)
{
    static const int families[] = {AF_INET, AF_INET6};
    struct ifaddrs *all;
    bool ok = false;
    if (getifaddrs(&all) < 0)
        return false;
    for (size_t f = 0; f < 2 && !ok; f++)
        for (struct ifaddrs *i = all; i && !ok; i = i->ifa_next) {
            if (!i->ifa_addr || i->ifa_addr->sa_family != families[f])
                continue;
            ok = interface ? strcmp(i->ifa_name, interface) == 0 &&
                                 (i->ifa_flags & IFF_LOOPBACK || !is_ours_alone(i->ifa_addr))
                           : i->ifa_flags & IFF_UP && !is_ours_alone(i->ifa_addr);
            if (ok)
                keep(i->ifa_addr, out, len);
        }
    freeifaddrs(all);
    return ok;
}

static int asked_for(const char *name, struct sockaddr_storage *out, socklen_t *len,
                     struct dt_err *err)
{
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM}, *found;
    if (if_nametoindex(name) > 0) {
        if (of_interface(name, out, len))
            return 0;
        return dt_err_set(err, DT_E_USAGE,
                          "DTRUN_COLL_ADDR in the environment names the interface %.40s, which has "
                          "no address that other hosts can use; give one, or name another",
                          name);
    }
    int rc = getaddrinfo(name, NULL, &hints, &found);
    if (rc != 0)
        return dt_err_set(err, DT_E_USAGE,
                          "DTRUN_COLL_ADDR in the environment is \"%.100s\", which is no interface "
                          "and no address of this host (%s)",
                          name, gai_strerror(rc));
    keep(found->ai_addr, out, len);
    freeaddrinfo(found);
    return 0;
}

int dt_tcp_address_choose(struct sockaddr_storage *out, socklen_t *len, struct dt_err *err)
{
    const char *asked = getenv("DTRUN_COLL_ADDR"), *master = getenv("MASTER_ADDR");
    const struct sockaddr_in loopback = {.sin_family = AF_INET,
                                         .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (asked && *asked)
        return asked_for(asked, out, len, err);
    /* The last two are addresses for examples, which any default route leads to. */
    if ((master && *master && towards(master, out, len)) || towards("192.0.2.1", out, len) ||
        towards("2001:db8::1", out, len) || of_interface(NULL, out, len))
        return 0;
    keep((const struct sockaddr *)&loopback, out, len);
    return 0;
}

void dt_tcp_address_print(const struct sockaddr_storage *at, char out[DT_TCP_TEXT])
{
    char host[INET6_ADDRSTRLEN] = "?";
    const struct sockaddr_in *four = (const struct sockaddr_in *)at;
    const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)at;
    bool is_four = at->ss_family == AF_INET;
    inet_ntop(at->ss_family, is_four ? (const void *)&four->sin_addr : &six->sin6_addr, host,
              sizeof host);
    snprintf(out, DT_TCP_TEXT, "%s port %d", host,
             ntohs(is_four ? four->sin_port : six->sin6_port));
}

void dt_tcp_card_write(const struct dt_tcp_card *c, uint8_t out[DT_TCP_CARD])
{
    struct packed p = {.magic = CARD_MAGIC, .secrets = c->secrets};
    const struct sockaddr_in *four = (const struct sockaddr_in *)&c->at;
    const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)&c->at;
    if (c->at.ss_family == AF_INET) {
        p.family = 4;
        p.port = four->sin_port;
        memcpy(p.address, &four->sin_addr, 4);
    } else {
        p.family = 6;
        p.port = six->sin6_port;
        memcpy(p.address, &six->sin6_addr, 16);
    }
    memcpy(out, &p, sizeof p);
}

int dt_tcp_card_read(struct dt_tcp_card *c, const void *bytes, size_t len, struct dt_err *err)
{
    struct packed p;
    struct sockaddr_in *four = (struct sockaddr_in *)&c->at;
    struct sockaddr_in6 *six = (struct sockaddr_in6 *)&c->at;
    *c = (struct dt_tcp_card){0};
    if (len == sizeof p)
        memcpy(&p, bytes, sizeof p);
    if (len != sizeof p || p.magic != CARD_MAGIC || (p.family != 4 && p.family != 6) || p.port == 0)
        return dt_err_set(err, DT_E_PROTOCOL,
                          "its address cannot be read: it has another version of dtrun, another "
                          "DTRUN_WIRE, or another order of bytes");
    c->secrets = p.secrets;
    c->len = family_len(p.family == 4 ? AF_INET : AF_INET6);
    if (p.family == 4) {
        four->sin_family = AF_INET;
        four->sin_port = p.port;
        memcpy(&four->sin_addr, p.address, 4);
    } else {
        six->sin6_family = AF_INET6;
        six->sin6_port = p.port;
        memcpy(&six->sin6_addr, p.address, 16);
    }
    return 0;
}
