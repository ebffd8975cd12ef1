/* SPDX-License-Identifier: Apache-2.0 */
#include "launcher/fleet/order.h"

#include "launcher/words.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HELLO "dtrun-fleet-agent 1 "

void dt_fleet_hello_put(struct dt_buf *out, const struct dt_fleet_hello *hello)
{
    dt_buf_printf(out, HELLO "%s %d\n", hello->version, hello->port);
}

bool dt_fleet_hello_read(struct dt_bytes line, struct dt_fleet_hello *hello)
{
    char text[128];
    int used = 0;
    if (line.len >= sizeof text)
        return false;
    memcpy(text, line.at, line.len);
    text[line.len] = '\0';
    *hello = (struct dt_fleet_hello){0};
    return sscanf(text, HELLO "%63[!-~] %5d%n", hello->version, &hello->port, &used) == 2 &&
           hello->port >= 0 && hello->port <= 65535 &&
           text[used + (int)strspn(text + used, "\r\n")] == '\0';
}

static void put_list(struct dt_buf *out, char *const *list)
{
    dt_buf_put_u32(out, (uint32_t)dt_words_count(list));
    for (char *const *text = list; text && *text; text++)
        dt_buf_put_text(out, *text);
}

int dt_fleet_order_put(struct dt_buf *out, const struct dt_fleet_order *order, struct dt_err *err)
{
    size_t start = out->len;
    dt_buf_put_u32(out, 0);
    put_list(out, order->argv);
    put_list(out, order->env);
    dt_buf_put_text(out, order->cwd);
    dt_buf_put_u32(out, (uint32_t)order->token_len);
    dt_buf_put(out, order->token, order->token_len);
    if (out->bad)
        return dt_err_set(err, DT_E_MEMORY, "no memory for what the hosts are told");
    size_t len = out->len - start - sizeof(uint32_t);
    if (len > DT_FLEET_ORDER_MAX)
        return dt_err_set(err, DT_E_RUNTIME,
                          "arguments and environment have %zu bytes; %u are the most that can be "
                          "passed to other hosts",
                          len, DT_FLEET_ORDER_MAX);
    dt_buf_set_u32(out, start, (uint32_t)len);
    return 0;
}

/* Allocated; NULL and a bad reader: it is not all there, or has a NUL inside. */
static char *read_text(struct dt_reader *r)
{
    uint32_t len = dt_read_u32(r);
    const uint8_t *at = dt_read_bytes(r, len);
    if (r->bad || (len > 0 && memchr(at, '\0', len))) {
        r->bad = true;
        return NULL;
    }
    char *text = malloc((size_t)len + 1);
    if (!text) {
        r->bad = true;
        return NULL;
    }
    dt_bytes_copy(text, (struct dt_bytes){at, len});
    text[len] = '\0';
    return text;
}

/* Each text has four bytes at least, so what is there bounds how many there can be. */
static char **read_list(struct dt_reader *r)
{
    uint32_t count = dt_read_u32(r);
    if (r->bad || count > dt_reader_left(r) / sizeof(uint32_t)) {
        r->bad = true;
        return NULL;
    }
    char **list = calloc((size_t)count + 1, sizeof *list);
    r->bad = !list;
    for (uint32_t i = 0; i < count && !r->bad; i++)
        list[i] = read_text(r);
    return list;
}

int dt_fleet_order_read(struct dt_bytes body, struct dt_fleet_order *order, struct dt_err *err)
{
    struct dt_reader r = dt_reader_over(body.at, body.len);
    *order = (struct dt_fleet_order){0};
    order->argv = read_list(&r);
    order->env = read_list(&r);
    order->cwd = read_text(&r);
    uint32_t len = dt_read_u32(&r);
    const uint8_t *token = dt_read_bytes(&r, len);
    bool whole = !r.bad && dt_reader_left(&r) == 0 && order->argv[0];
    order->token = whole ? malloc((size_t)len + 1) : NULL;
    if (!order->token)
        return dt_err_set(err, DT_E_PROTOCOL,
                          "what came on standard input is no order of a dtrun that starts a fleet");
    dt_bytes_copy(order->token, (struct dt_bytes){token, len});
    order->token_len = len;
    return 0;
}

void dt_fleet_order_finish(struct dt_fleet_order *order)
{
    dt_words_free(order->argv);
    dt_words_free(order->env);
    free(order->cwd);
    if (order->token)
        explicit_bzero(order->token, order->token_len);
    free(order->token);
    *order = (struct dt_fleet_order){0};
}
