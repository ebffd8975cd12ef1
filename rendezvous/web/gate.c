/* SPDX-License-Identifier: Apache-2.0 */
#include "rendezvous/web/gate.h"

#include <arpa/inet.h>
#include <string.h>
#include <strings.h>

static bool is_same(const struct dt_token *token, const char *said)
{
    size_t len = strlen(said);
    volatile uint8_t differ = len != token->len; /* so that no compiler stops early */
    for (size_t i = 0; i < token->len; i++)
        differ |= token->secret[i] ^ (i < len ? (uint8_t)said[i] : 0);
    return differ == 0;
}

static enum dt_web_entry ask_for_token(const struct dt_token *token, const char *authorization)
{
    static const char scheme[] = "Bearer ";
    const size_t len = sizeof scheme - 1;
    if (!authorization || strncasecmp(authorization, scheme, len) != 0)
        return DT_WEB_ENTRY_NO_TOKEN;
    const char *said = authorization + len;
    said += strspn(said, " ");
    return is_same(token, said) ? DT_WEB_ENTRY_GOOD : DT_WEB_ENTRY_WRONG_TOKEN;
}

/* "127.0.0.1:9400", "[::1]:9400", "localhost:9400", each with or without its port. */
static bool names_machine(const char *host)
{
    struct in6_addr in6;
    char name[64];
    bool quoted = *host == '[';
    size_t len = strcspn(host += quoted, quoted ? "]" : ":");
    if (len >= sizeof name)
        return false;
    memcpy(name, host, len);
    name[len] = '\0';
    if (quoted)
        return host[len] == ']' && inet_pton(AF_INET6, name, &in6) == 1;
    return strcasecmp(name, "localhost") == 0 || inet_pton(AF_INET, name, &in6) == 1;
}

enum dt_web_entry dt_web_gate(const struct dt_token *token, const char *authorization,
                              const char *host)
{
    if (token->len > 0)
        return ask_for_token(token, authorization);
    return !host || names_machine(host) ? DT_WEB_ENTRY_GOOD : DT_WEB_ENTRY_WRONG_HOST;
}

int dt_web_gate_check(const struct dt_token *token, struct dt_err *err)
{
    for (size_t i = 0; i < token->len; i++)
        if (token->secret[i] <= ' ' || token->secret[i] > '~')
            return dt_err_set(err, DT_E_USAGE,
                              "a header of HTTP cannot carry byte %zu of the token; take letters "
                              "and digits, as from \"openssl rand -hex 32\"",
                              i + 1);
    return 0;
}
