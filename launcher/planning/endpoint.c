/* SPDX-License-Identifier: Apache-2.0 */
#include "launcher/planning/endpoint.h"

#include "base/str.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <stdbool.h>
#include <string.h>

/* One to five digits, below 65536; -1: it is no port. */
static int read_port(const char *s)
{
    int port = 0;
    size_t n = strspn(s, "0123456789");
    if (n == 0 || n > 5 || s[n] != '\0')
        return -1;
    for (; *s; s++)
        port = port * 10 + (*s - '0');
    return port < 65536 ? port : -1;
}

/* Letters of other alphabets are let through: a resolver knows more about them. */
static bool is_host(const char *host)
{
    for (const char *c = host; *c; c++)
        if (!isalnum((unsigned char)*c) && !strchr("_.:-", *c) && (unsigned char)*c < 0x80)
            return false;
    return *host != '\0';
}

/* torchrun cuts at the last colon whatever stands before it, so "::1" is port 1 of a host ":". */
static bool is_cut_address(const char *host)
{
    struct in6_addr ignored;
    return strchr(host, ':') && inet_pton(AF_INET6, host, &ignored) != 1;
}

/* "fe80::1" or "fe80::1%eth0". Which link is meant each host says for itself, so the other nodes
 * and the workers could not be told where to connect to. */
static bool is_link_local(const char *host)
{
    char plain[INET6_ADDRSTRLEN];
    struct in6_addr addr;
    size_t len = strcspn(host, "%");
    if (len >= sizeof plain)
        return false;
    memcpy(plain, host, len);
    plain[len] = '\0';
    return inet_pton(AF_INET6, plain, &addr) == 1 && IN6_IS_ADDR_LINKLOCAL(&addr);
}

int dt_rdzv_endpoint_parse(const char *text, int default_port, struct dt_rdzv_endpoint *out,
                           struct dt_err *err)
{
    char copy[sizeof out->host + 16];
    struct dt_rdzv_endpoint e = {.host = "localhost", .port = default_port};
    if (strlen(text) >= sizeof copy)
        return dt_err_set(err, DT_E_RUNTIME, "\"%.40s...\" is too long for HOST:PORT", text);
    strcpy(copy, text);
    char *host = dt_str_trim(copy);
    size_t len = strlen(host);
    char *colon = strrchr(host, ':');
    if (len && host[0] == '[' && host[len - 1] == ']')
        colon = NULL;
    if (colon) {
        *colon = '\0';
        e.port = read_port(colon + 1);
        if (e.port < 0)
            return dt_err_set(err, DT_E_RUNTIME, "\"%s\" has no port from 0 to 65535 at its end",
                              text);
    }
    if (!colon && read_port(host) >= 0) /* the resolver would take it for an IPv4 address */
        return dt_err_set(err, DT_E_RUNTIME, "\"%s\" is a port and names no host; write HOST:%s",
                          host, host);
    len = strlen(host);
    if (len > 1 && host[0] == '[' && host[len - 1] == ']') {
        host[len - 1] = '\0';
        host++;
    }
    if (is_link_local(host))
        return dt_err_set(
            err, DT_E_RUNTIME,
            "\"%s\" is a link-local address, which leads elsewhere from another host; "
            "give a name or another address",
            text);
    if ((*host || colon) && !is_host(host))
        return dt_err_set(err, DT_E_RUNTIME, "\"%s\" does not start with a host; write HOST:PORT",
                          text);
    if (is_cut_address(host))
        return dt_err_set(err, DT_E_RUNTIME,
                          "\"%s\" is no address with a port; write an IPv6 address as [%s]:PORT",
                          text, text);
    if (strlen(host) >= sizeof e.host)
        return dt_err_set(err, DT_E_RUNTIME, "\"%.40s...\" is too long for HOST:PORT", text);
    if (*host)
        strcpy(e.host, host);
    if (e.port == DT_ENDPOINT_PORT_REQUIRED)
        return dt_err_set(err, DT_E_RUNTIME, "\"%s\" lacks a port; write HOST:PORT", text);
    *out = e;
    return 0;
}
