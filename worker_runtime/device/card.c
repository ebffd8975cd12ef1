/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_runtime/device/card.h"

#include "worker_runtime/ops/ops.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Texts of others are as long as they like. */
static void put(char *out, size_t size, const char *text)
{
    if ((size_t)snprintf(out, size, "%s", text) >= size)
        strcpy(out + size - 4, "...");
}

void dt_device_card_write(const struct dt_device *d, struct dt_device_card *card)
{
    char host[256] = "";
    *card = (struct dt_device_card){.elem = (uint8_t)d->ops->elem};
    if (gethostname(host, sizeof host - 1) < 0 || !host[0])
        strcpy(host, "its host");
    put(card->host, sizeof card->host, host);
    put(card->device, sizeof card->device, d->name);
    put(card->why, sizeof card->why, d->no_gpu ? d->no_gpu : "");
}

static bool is_cpu(const struct dt_device_card *c)
{
    return strcmp(c->device, "cpu") == 0;
}

static const char *elem_name(const struct dt_device_card *c)
{
    return c->elem == DT_BF16 ? "bfloat16" : c->elem == DT_F32 ? "float" : "another type";
}

static int say_mixed(const struct dt_device_card *cards, int cpu, int gpu, struct dt_err *err)
{
    const struct dt_device_card *c = &cards[cpu];
    return dt_err_set(err, DT_E_RUNTIME,
                      "rank %d (%s) is on a GPU and rank %d (%s) is not, and one job cannot "
                      "mix them; rank %d has no GPU: %s; cure that, set train.device to "
                      "\"cpu\", or leave %s out",
                      gpu, cards[gpu].host, cpu, c->host, cpu,
                      c->why[0] ? c->why : "its train.device is \"cpu\"", c->host);
}

int dt_device_cards_check(const struct dt_device_card *cards, int ranks, struct dt_err *err)
{
    for (int r = 1; r < ranks; r++) {
        if (is_cpu(&cards[r]) != is_cpu(&cards[0]))
            return say_mixed(cards, is_cpu(&cards[0]) ? 0 : r, is_cpu(&cards[0]) ? r : 0, err);
        if (strcmp(cards[r].device, cards[0].device) != 0 || cards[r].elem != cards[0].elem)
            return dt_err_set(err, DT_E_RUNTIME,
                              "rank 0 (%s) computes with %s on \"%s\" and rank %d (%s) with "
                              "%s on \"%s\"; give all ranks the same configuration, and dtrun of "
                              "one build",
                              cards[0].host, elem_name(&cards[0]), cards[0].device, r,
                              cards[r].host, elem_name(&cards[r]), cards[r].device);
    }
    return 0;
}
