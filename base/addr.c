/* SPDX-License-Identifier: Apache-2.0 */
#include "base/addr.h"

#include "base/auto.h"
#include "base/str.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

static int check_path(const char *path, struct dt_err *err)
{
    size_t most = sizeof((struct sockaddr_un *)0)->sun_path - 1;
    if (*path == '/' && strlen(path) <= most)
        return 0;
    return dt_err_set(err, DT_E_USAGE,
                      "\"%s\" is no socket path; give an absolute one of at most %zu characters",
                      path, most);
}

static void set_path(const char *path, struct dt_addr *out)
{
    struct sockaddr_un *un = (struct sockaddr_un *)&out->sa;
    *out = (struct dt_addr){.len = sizeof *un};
    un->sun_family = AF_UNIX;
    strcpy(un->sun_path, path); /* checked by check_path() */
}

static int resolve(const char *host, const char *port, int flags, struct dt_addr *out, size_t max,
                   size_t *count, struct dt_err *err)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
                             .ai_flags = AI_PASSIVE | AI_NUMERICSERV | flags};
    struct addrinfo *found;
    int rc = getaddrinfo(host, port, &hints, &found);
    if (rc != 0)
        return dt_err_set(err, DT_E_RUNTIME, "cannot resolve \"%s\": %s", host, gai_strerror(rc));
    *count = 0;
    for (struct addrinfo *a = found; a && *count < max; a = a->ai_next) {
        out[*count] = (struct dt_addr){.len = a->ai_addrlen};
        memcpy(&out[(*count)++].sa, a->ai_addr, a->ai_addrlen);
    }
    freeaddrinfo(found);
    return 0;
}

/* Cuts "HOST:PORT" into its parts; a lone IPv6 address has no port. */
static int split(const char *text, char *host, size_t size, const char **port, struct dt_err *err)
{
    const char *end = strrchr(text, ':');
    const char *from = text;
    *port = end ? end + 1 : NULL;
    if (*text == '[') {
        from = text + 1;
        end = strchr(text, ']');
        if (!end || (end[1] != ':' && end[1] != '\0'))
            return dt_err_set(err, DT_E_USAGE, "\"%s\" is not [ADDRESS]:PORT", text);
        *port = end[1] == ':' ? end + 2 : NULL;
    } else if (!end || strchr(text, ':') != end) {
        end = text + strlen(text);
        *port = NULL;
    }
    size_t n = (size_t)(end - from);
    if (n >= size)
        return dt_err_set(err, DT_E_USAGE, "\"%s\" is too long for an address", text);
    memcpy(host, from, n);
    host[n] = '\0';
    return 0;
}

/* Every address: IPv6 sockets take IPv4 too, unless this kernel was started without IPv6. */
static const char *any_host(void)
{
    DT_AUTO_FD fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    return fd >= 0 ? "::" : "0.0.0.0";
}

/* An address in text, taken apart but not looked up. */
struct parts {
    const char *path; /* of a unix socket; else NULL and: */
    char host[256];
    char port[8];
};

/* The resolver would take it for an IPv4 address written as one number. */
static bool is_bare_port(const char *text)
{
    int64_t port;
    return isdigit((unsigned char)*text) && dt_str_to_int(text, 0, 65535, &port, NULL) == 0;
}

static int take_apart(const char *text, uint16_t default_port, struct parts *p, struct dt_err *err)
{
    bool marked = strncmp(text, "unix:", 5) == 0;
    *p = (struct parts){.path = marked ? text + 5 : *text == '/' ? text : NULL};
    if (p->path)
        return check_path(p->path, err);
    if (is_bare_port(text))
        return dt_err_set(err, DT_E_USAGE,
                          "\"%s\" is a port and names no host; write HOST:%s, or *:%s to listen "
                          "on every address",
                          text, text, text);
    const char *port;
    if (split(text, p->host, sizeof p->host, &port, err) < 0)
        return -1;
    int64_t number = default_port;
    if (port && dt_str_to_int(port, 0, 65535, &number, err) < 0)
        return dt_err_wrap(err, "port");
    if (p->host[0] == '\0')
        return dt_err_set(err, DT_E_USAGE,
                          "\"%s\" names no host; write HOST:PORT, or *:PORT "
                          "to listen on every address",
                          text);
    snprintf(p->port, sizeof p->port, "%d", (int)number);
    return 0;
}

int dt_addr_check(const char *text, struct dt_err *err)
{
    struct parts p;
    return take_apart(text, 0, &p, err);
}

/* FLAGS are those of getaddrinfo(3). */
static int find(const char *text, uint16_t default_port, int flags, struct dt_addr *out, size_t max,
                size_t *count, struct dt_err *err)
{
    struct parts p;
    if (take_apart(text, default_port, &p, err) < 0)
        return -1;
    if (p.path) {
        *count = 1;
        set_path(p.path, out);
        return 0;
    }
    return resolve(strcmp(p.host, "*") == 0 ? any_host() : p.host, p.port, flags, out, max, count,
                   err);
}

int dt_addr_resolve(const char *text, uint16_t default_port, struct dt_addr *out, size_t max,
                    size_t *count, struct dt_err *err)
{
    return find(text, default_port, 0, out, max, count, err);
}

int dt_addr_parse(const char *text, uint16_t default_port, struct dt_addr *out, struct dt_err *err)
{
    size_t count;
    return dt_addr_resolve(text, default_port, out, 1, &count, err);
}

bool dt_addr_parse_number(const char *text, uint16_t default_port, struct dt_addr *out)
{
    size_t count;
    return find(text, default_port, AI_NUMERICHOST, out, 1, &count, NULL) == 0;
}

static bool is_mapped(const struct sockaddr_in6 *in6)
{
    return IN6_IS_ADDR_V4MAPPED(&in6->sin6_addr);
}

const char *dt_addr_text(const struct dt_addr *a, char *out, size_t size)
{
    char host[INET6_ADDRSTRLEN] = "";
    const struct sockaddr_in *in = (const struct sockaddr_in *)&a->sa;
    const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)&a->sa;
    const struct sockaddr_un *un = (const struct sockaddr_un *)&a->sa;
    switch (a->sa.ss_family) {
    case AF_INET:
        inet_ntop(AF_INET, &in->sin_addr, host, sizeof host);
        snprintf(out, size, "%s:%u", host, ntohs(in->sin_port));
        break;
    case AF_INET6:
        if (is_mapped(in6))
            inet_ntop(AF_INET, &in6->sin6_addr.s6_addr[12], host, sizeof host);
        else
            inet_ntop(AF_INET6, &in6->sin6_addr, host, sizeof host);
        snprintf(out, size, is_mapped(in6) ? "%s:%u" : "[%s]:%u", host, ntohs(in6->sin6_port));
        break;
    case AF_UNIX:
        if (a->len > offsetof(struct sockaddr_un, sun_path) && un->sun_path[0])
            snprintf(out, size, "unix:%.*s", (int)sizeof un->sun_path, un->sun_path);
        else
            snprintf(out, size, "a unix socket");
        break;
    default:
        snprintf(out, size, "an unknown address");
    }
    return out;
}

int dt_cidr_parse(const char *text, struct dt_cidr *out, struct dt_err *err)
{
    char address[INET6_ADDRSTRLEN];
    const char *slash = strchr(text, '/');
    size_t n = slash ? (size_t)(slash - text) : strlen(text);
    struct dt_cidr c = {0};
    if (n < sizeof address) {
        memcpy(address, text, n);
        address[n] = '\0';
        c.family = inet_pton(AF_INET, address, c.bytes) == 1    ? AF_INET
                   : inet_pton(AF_INET6, address, c.bytes) == 1 ? AF_INET6
                                                                : AF_UNSPEC;
    }
    if (c.family != AF_INET && c.family != AF_INET6)
        return dt_err_set(err, DT_E_USAGE,
                          "\"%s\" is no range of addresses; write it as 10.0.0.0/8 or fd00::/8",
                          text);
    int64_t bits = c.family == AF_INET ? 32 : 128;
    if (slash && dt_str_to_int(slash + 1, 0, bits, &bits, err) < 0)
        return dt_err_wrap(err, "prefix length of \"%s\"", text);
    c.bits = (unsigned)bits;
    *out = c;
    return 0;
}

/* The bytes of an address of the Internet, and in *FAMILY whose they are; NULL for others. */
static const uint8_t *ip_of(const struct dt_addr *a, int *family)
{
    const struct sockaddr_in *in = (const struct sockaddr_in *)&a->sa;
    const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)&a->sa;
    bool mapped = a->sa.ss_family == AF_INET6 && is_mapped(in6);
    *family = mapped ? AF_INET : a->sa.ss_family;
    if (mapped)
        return &in6->sin6_addr.s6_addr[12];
    if (*family == AF_INET6)
        return in6->sin6_addr.s6_addr;
    return *family == AF_INET ? (const uint8_t *)&in->sin_addr : NULL;
}

bool dt_cidr_contains(const struct dt_cidr *c, const struct dt_addr *a)
{
    int family;
    const uint8_t *bytes = ip_of(a, &family);
    if (!bytes || family != c->family)
        return false;
    unsigned whole = c->bits / 8, rest = c->bits % 8;
    if (memcmp(bytes, c->bytes, whole) != 0)
        return false;
    return rest == 0 || (bytes[whole] ^ c->bytes[whole]) >> (8 - rest) == 0;
}

bool dt_cidr_any_contains(const struct dt_cidr *c, size_t count, const struct dt_addr *a)
{
    for (size_t i = 0; i < count; i++)
        if (dt_cidr_contains(&c[i], a))
            return true;
    return false;
}

struct dt_addr_host dt_addr_host(const struct dt_addr *a)
{
    int family;
    const uint8_t *ip = ip_of(a, &family);
    struct dt_addr_host h = {{(uint8_t)family}};
    if (ip)
        memcpy(h.bytes + 1, ip, family == AF_INET ? 4 : 8);
    return h;
}

bool dt_addr_is_same_ip(const struct dt_addr *a, const struct dt_addr *b)
{
    int family, other;
    const uint8_t *ip = ip_of(a, &family), *other_ip = ip_of(b, &other);
    return ip && other_ip && family == other &&
           memcmp(ip, other_ip, family == AF_INET ? 4 : 16) == 0;
}

bool dt_addr_is_local(const struct dt_addr *a)
{
    int family;
    const uint8_t *ip = ip_of(a, &family);
    if (ip && family == AF_INET)
        return ip[0] == 127;
    return !ip || IN6_IS_ADDR_LOOPBACK((const struct in6_addr *)ip);
}

void dt_addr_own_name(char *out, size_t size)
{
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_flags = AI_CANONNAME}, *found;
    if (gethostname(out, size) < 0)
        snprintf(out, size, "localhost");
    out[size - 1] = '\0';
    if (strchr(out, '.') || getaddrinfo(out, NULL, &hints, &found) != 0)
        return;
    if (found->ai_canonname && strchr(found->ai_canonname, '.'))
        snprintf(out, size, "%s", found->ai_canonname);
    freeaddrinfo(found);
}
