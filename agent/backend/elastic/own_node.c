/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/backend/elastic/own_node.h"

#include "base/fs.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#define ADDRESSES 16 /* of one name that are looked at */

/* -- loopback --------------------------------------------------------------------------------- */

static bool is_loopback_addr(const struct dt_addr *a)
{
    struct dt_cidr v4, v6;
    return dt_cidr_parse("127.0.0.0/8", &v4, NULL) == 0 && dt_cidr_parse("::1", &v6, NULL) == 0 &&
           (dt_cidr_contains(&v4, a) || dt_cidr_contains(&v6, a));
}

/* HOST as a literal with port 0; false: it is a name. */
static bool read_literal(const char *host, struct dt_addr *out)
{
    struct dt_cidr range;
    char text[DT_ADDR_TEXT];
    const char *v6 = strchr(host, ':');
    if (strchr(host, '/') || strlen(host) > 64 || dt_cidr_parse(host, &range, NULL) < 0)
        return false;
    snprintf(text, sizeof text, "%s%s%s", v6 ? "[" : "", host, v6 ? "]" : "");
    return dt_addr_parse(text, 0, out, NULL) == 0;
}

bool dt_own_node_is_loopback(const char *host)
{
    struct dt_addr a;
    return strcasecmp(host, "localhost") == 0 || (read_literal(host, &a) && is_loopback_addr(&a));
}

/* -- our interfaces --------------------------------------------------------------------------- */

static bool same_address(const struct sockaddr *a, const struct dt_addr *b)
{
    const struct sockaddr *other = (const struct sockaddr *)&b->sa;
    if (!a || a->sa_family != other->sa_family)
        return false;
    if (a->sa_family == AF_INET)
        return ((const struct sockaddr_in *)a)->sin_addr.s_addr ==
               ((const struct sockaddr_in *)other)->sin_addr.s_addr;
    return a->sa_family == AF_INET6 &&
           memcmp(&((const struct sockaddr_in6 *)a)->sin6_addr,
                  &((const struct sockaddr_in6 *)other)->sin6_addr, sizeof(struct in6_addr)) == 0;
}

static bool has_interface(const struct dt_addr *a)
{
    struct ifaddrs *all;
    bool found = is_loopback_addr(a);
    if (found || getifaddrs(&all) < 0)
        return found;
    for (const struct ifaddrs *i = all; i && !found; i = i->ifa_next)
        found = same_address(i->ifa_addr, a);
    freeifaddrs(all);
    return found;
}

/* -- names ------------------------------------------------------------------------------------ */

static bool is_own_name(const char *host)
{
    char name[256];
    if (gethostname(name, sizeof name) == 0) {
        name[sizeof name - 1] = '\0';
        if (strcasecmp(host, name) == 0)
            return true;
    }
    dt_addr_own_name(name, sizeof name);
    return strcasecmp(host, name) == 0;
}

bool dt_own_node_is(const char *host)
{
    struct dt_addr found[ADDRESSES];
    size_t count = 0;
    if (dt_own_node_is_loopback(host))
        return true;
    if (read_literal(host, &found[0]))
        return has_interface(&found[0]);
    if (is_own_name(host))
        return true;
    if (dt_addr_resolve(host, 0, found, ADDRESSES, &count, NULL) < 0)
        return false; /* a name that comes to be known later is not ours */
    for (size_t i = 0; i < count; i++)
        if (has_interface(&found[i]))
            return true;
    return false;
}

void dt_own_node_name(char *out, size_t size)
{
    if (gethostname(out, size) < 0)
        snprintf(out, size, "node");
    out[size - 1] = '\0';
}

void dt_own_node_boot(char *out, size_t size)
{
    struct dt_buf id = {0};
    *out = '\0';
    if (dt_fs_read("/proc/sys/kernel/random/boot_id", 64, &id, NULL) == 0)
        snprintf(out, size, "%.36s", dt_buf_cstr(&id));
    dt_buf_finish(&id);
}

/* -- how others reach us ---------------------------------------------------------------------- */

/* The one that our own name leads to. */
static bool named_addr(struct dt_addr *out)
{
    struct dt_addr found[ADDRESSES];
    char name[256];
    size_t count = 0;
    dt_own_node_name(name, sizeof name);
    if (dt_addr_resolve(name, 0, found, ADDRESSES, &count, NULL) < 0)
        return false;
    for (size_t i = 0; i < count; i++) {
        *out = found[i];
        if (!is_loopback_addr(out) && has_interface(out))
            return true;
    }
    return false;
}

/* The one that the kernel would send from into the wide world. Nothing is sent. */
static bool routed_addr(struct dt_addr *out)
{
    struct dt_addr far; /* an address for documentation, which nobody has */
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    out->len = sizeof out->sa;
    bool found = fd >= 0 && dt_addr_parse("192.0.2.1:9", 0, &far, NULL) == 0 &&
                 connect(fd, (const struct sockaddr *)&far.sa, far.len) == 0 &&
                 getsockname(fd, (struct sockaddr *)&out->sa, &out->len) == 0;
    if (fd >= 0)
        close(fd);
    return found && !is_loopback_addr(out);
}

/* The first that an interface has. Link-local ones of IPv6 mean nothing on other hosts. */
static bool first_addr(struct dt_addr *out)
{
    struct ifaddrs *all;
    bool found = false;
    if (getifaddrs(&all) < 0)
        return false;
    for (const struct ifaddrs *i = all; i && !found; i = i->ifa_next) {
        if (!i->ifa_addr || !(i->ifa_flags & IFF_UP) ||
            (i->ifa_addr->sa_family != AF_INET && i->ifa_addr->sa_family != AF_INET6))
            continue;
        out->len = i->ifa_addr->sa_family == AF_INET ? sizeof(struct sockaddr_in)
                                                     : sizeof(struct sockaddr_in6);
        memcpy(&out->sa, i->ifa_addr, out->len);
        const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)&out->sa;
        found = !is_loopback_addr(out) &&
                (i->ifa_addr->sa_family == AF_INET || !IN6_IS_ADDR_LINKLOCAL(&in6->sin6_addr));
    }
    freeifaddrs(all);
    return found;
}

/* ADDR without its port. */
static void put_addr(const struct dt_addr *addr, char *out, size_t size)
{
    char text[DT_ADDR_TEXT];
    dt_addr_text(addr, text, sizeof text);
    char *from = *text == '[' ? text + 1 : text;
    char *end = *text == '[' ? strchr(text, ']') : strrchr(text, ':');
    if (end)
        *end = '\0';
    snprintf(out, size, "%s", from);
}

void dt_own_node_addr(const char *host, const struct dt_addr *local, bool others, char *out,
                      size_t size)
{
    struct dt_addr outside = {0};
    if (is_loopback_addr(local) && !dt_own_node_is_loopback(host))
        snprintf(out, size, "%s", host);
    else if (is_loopback_addr(local) && others && strcasecmp(host, "localhost") == 0 &&
             (named_addr(&outside) || routed_addr(&outside) || first_addr(&outside)))
        put_addr(&outside, out, size);
    else
        put_addr(local, out, size);
}
