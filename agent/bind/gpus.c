/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/bind/gpus.h"

#include "base/str.h"

#include <ctype.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

void dt_gpus_finish(struct dt_gpus *g)
{
    free(g->at);
    *g = (struct dt_gpus){0};
}

/* The number an item begins with; what follows does not matter to CUDA. -1: none. */
static int number_of(const char *item)
{
    if (!isdigit((unsigned char)*item))
        return -1;
    unsigned long n = strtoul(item, NULL, 10);
    return n <= INT32_MAX ? (int)n : -1;
}

static int find_number(const struct dt_gpus *all, int number)
{
    for (size_t i = 0; number >= 0 && i < all->count; i++)
        if (!all->at[i].mig && all->at[i].number == number)
            return (int)i;
    return -1;
}

/* The one whose UUID begins so; an item that fits two names none. */
static int find_uuid(const struct dt_gpus *all, const char *item)
{
    int found = -1;
    for (size_t i = 0; i < all->count; i++) {
        if (strncmp(all->at[i].uuid, item, strlen(item)) != 0)
            continue;
        if (found >= 0)
            return -1;
        found = (int)i;
    }
    return found;
}

/* Which kind a list is of follows from its first item. */
static const char *prefix_of(const char *devices)
{
    while (isspace((unsigned char)*devices))
        devices++;
    if (strncmp(devices, "GPU-", 4) == 0)
        return "GPU-";
    return strncmp(devices, "MIG-", 4) == 0 ? "MIG-" : "";
}

static int find_item(const struct dt_gpus *all, const char *item, const char *prefix)
{
    if (!*prefix)
        return find_number(all, number_of(item));
    return strncmp(item, prefix, strlen(prefix)) == 0 ? find_uuid(all, item) : -1;
}

static bool chosen_already(const struct dt_gpus *chosen, const struct dt_gpu *g)
{
    for (size_t i = 0; i < chosen->count; i++)
        if (strcmp(chosen->at[i].uuid, g->uuid) == 0 && chosen->at[i].number == g->number)
            return true;
    return false;
}

static void select_listed(const struct dt_gpus *all, char *list, struct dt_gpus *out)
{
    const char *prefix = prefix_of(list);
    char *item, *rest = list;
    while ((item = strsep(&rest, ","))) {
        int i = find_item(all, dt_str_trim(item), prefix);
        if (i < 0)
            return;
        if (chosen_already(out, &all->at[i])) {
            out->count = 0;
            return;
        }
        out->at[out->count++] = all->at[i];
    }
}

int dt_gpus_select(const struct dt_gpus *all, const char *devices, struct dt_gpus *out,
                   struct dt_err *err)
{
    char *list = devices ? strdup(devices) : NULL;
    *out = (struct dt_gpus){.at = calloc(all->count + 1, sizeof *out->at)};
    if (!out->at || (devices && !list)) {
        free(list);
        dt_gpus_finish(out);
        return dt_err_set(err, DT_E_MEMORY, "no memory for a list of GPUs");
    }
    for (size_t i = 0; !devices && i < all->count; i++)
        if (!all->at[i].mig)
            out->at[out->count++] = all->at[i];
    if (devices)
        select_listed(all, list, out);
    free(list);
    return 0;
}

int dt_gpus_count(const char *devices)
{
    struct dt_gpus all = {0}, visible = {0};
    int count = 0;
    if (dt_gpus_read(&all, NULL) == 0 && dt_gpus_select(&all, devices, &visible, NULL) == 0)
        count = visible.count && visible.at[0].mig ? 1 : (int)visible.count;
    dt_gpus_finish(&all);
    dt_gpus_finish(&visible);
    return count;
}
