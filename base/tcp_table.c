/* SPDX-License-Identifier: Apache-2.0 */
#include "base/tcp_table.h"

#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#define LISTENING 0x0a
#define ROW_MAX 512 /* the kernel pads rows to 150 bytes, or 180 */

/* "0100007F:733C": the words of an address are printed as this machine reads them. NULL: it is
 * none; else what stands behind. */
static const char *parse_end(const char *at, bool v6, struct dt_tcp_end *end)
{
    *end = (struct dt_tcp_end){.words = {0, 0, htonl(0xffff), 0}};
    for (int i = v6 ? 0 : 3; i < 4; i++, at += 8)
        if (strnlen(at, 8) < 8 || sscanf(at, "%8x", &end->words[i]) != 1)
            return NULL;
    int n = 0;
    return sscanf(at, ":%4x%n", &end->port, &n) == 1 ? at + n : NULL;
}

/* "  12: 0100007F:733C 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000  0 34567 ..."
 */
bool dt_tcp_row_parse(const char *line, bool v6, struct dt_tcp_row *row)
{
    char alone[ROW_MAX]; /* sscanf() looks for the end of what it is given, however far that is */
    unsigned state;
    snprintf(alone, sizeof alone, "%.*s", (int)strcspn(line, "\n"), line);
    const char *at = strchr(alone, ':');
    if (!at)
        return false;
    at += 1 + strspn(at + 1, " ");
    at = parse_end(at, v6, &row->local);
    at = at ? parse_end(at + strspn(at, " "), v6, &row->remote) : NULL;
    if (!at ||
        sscanf(at, " %x %*x:%*x %*x:%*x %*x %u %*u %lu", &state, &row->user, &row->inode) != 3)
        return false;
    row->listens = state == LISTENING;
    return true;
}

struct dt_addr dt_tcp_end_addr(const struct dt_tcp_end *end)
{
    struct dt_addr addr = {.len = sizeof(struct sockaddr_in6)};
    struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&addr.sa;
    in6->sin6_family = AF_INET6;
    memcpy(&in6->sin6_addr, end->words, sizeof end->words);
    in6->sin6_port = htons((uint16_t)end->port);
    return addr;
}

bool dt_tcp_end_of_addr(const struct dt_addr *addr, struct dt_tcp_end *out)
{
    *out = (struct dt_tcp_end){.words = {0, 0, htonl(0xffff), 0}};
    if (addr->sa.ss_family == AF_INET) {
        const struct sockaddr_in *in = (const struct sockaddr_in *)&addr->sa;
        out->words[3] = in->sin_addr.s_addr;
        out->port = ntohs(in->sin_port);
        return true;
    }
    if (addr->sa.ss_family != AF_INET6)
        return false;
    const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)&addr->sa;
    memcpy(out->words, &in6->sin6_addr, sizeof out->words);
    out->port = ntohs(in6->sin6_port);
    return true;
}

bool dt_tcp_end_is_same(const struct dt_tcp_end *a, const struct dt_tcp_end *b)
{
    return a->port == b->port && memcmp(a->words, b->words, sizeof a->words) == 0;
}
