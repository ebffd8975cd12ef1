/* SPDX-License-Identifier: Apache-2.0 */
#include "preflight/probes/infiniband.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEVICES "/sys/class/infiniband"
#define GIDS 16 /* of a port that are looked at */

static bool is_active(const struct dt_ib_port *p)
{
    return strcmp(p->state, "ACTIVE") == 0;
}

static void judge_port(const struct dt_ib_port *p, bool others_are_active, struct dt_sheet *sheet)
{
    if (!is_active(p)) {
        dt_sheet_remark(sheet, "infiniband", others_are_active ? DT_GRADE_WARN : DT_GRADE_NOTE,
                        "look at its cable and switch, or leave it out with NCCL_IB_HCA",
                        "%s port %d is %s (%s)%s", p->device, p->number, p->state, p->physical,
                        others_are_active ? ", others of this host are active" : "");
        return;
    }
    if (p->is_ethernet && !p->has_routed_gid)
        dt_sheet_remark(sheet, "infiniband", DT_GRADE_WARN,
                        "give its interface an address; `show_gids` lists what it has",
                        "%s port %d speaks RoCE and has no address for version 2 of it", p->device,
                        p->number);
    if (p->times_down > 0)
        dt_sheet_remark(sheet, "infiniband", DT_GRADE_NOTE, "a cable may be loose",
                        "the link of %s port %d went down %" PRId64 " times", p->device, p->number,
                        p->times_down);
}

/* What ranks of one job wait for is the slowest. */
static void judge_rates(const struct dt_ib *ib, struct dt_sheet *sheet)
{
    const struct dt_ib_port *first = NULL;
    for (size_t i = 0; i < ib->count; i++) {
        const struct dt_ib_port *p = &ib->at[i];
        if (!is_active(p) || p->is_ethernet)
            continue;
        if (first && strcmp(first->rate, p->rate) != 0) {
            dt_sheet_remark(sheet, "infiniband", DT_GRADE_NOTE, "choose equal ones by NCCL_IB_HCA",
                            "%s runs at %s, but %s at %s", first->device, first->rate, p->device,
                            p->rate);
            return;
        }
        first = first ? first : p;
    }
}

void dt_ib_judge(const struct dt_ib *ib, struct dt_sheet *sheet)
{
    size_t before = sheet->remark_count, active = 0;
    for (size_t i = 0; i < ib->count; i++)
        active += is_active(&ib->at[i]);
    for (size_t i = 0; i < ib->count; i++)
        judge_port(&ib->at[i], active > 0, sheet);
    judge_rates(ib, sheet);
    if (active > 0 && !ib->has_verbs)
        dt_sheet_remark(sheet, "infiniband", DT_GRADE_WARN,
                        "give the container --device /dev/infiniband, and IPC_LOCK",
                        "there are active ports, but no /dev/infiniband/uverbs: NCCL falls back "
                        "to sockets");
    if (ib->count > 0)
        dt_sheet_set(sheet, "InfiniBand", "%zu of %zu ports active", active, ib->count);
    if (sheet->remark_count > before)
        return;
    if (ib->count == 0)
        dt_sheet_remark(sheet, "infiniband", DT_GRADE_OK, NULL, "this host has none");
    else
        dt_sheet_remark(sheet, "infiniband", DT_GRADE_OK, NULL, "%zu port%s active, %s", active,
                        active == 1 ? "" : "s", ib->at[0].rate);
}

/* "4: ACTIVE" to "ACTIVE". */
static void read_state(const char *root, const char *path, char out[32])
{
    char text[48];
    dt_probe_read(root, path, text, sizeof text);
    const char *colon = strstr(text, ": ");
    snprintf(out, 32, "%.31s", colon ? colon + 2 : text);
}

static bool find_routed_gid(const char *root, const char *port)
{
    char path[256], text[64];
    for (int i = 0; i < GIDS; i++) {
        snprintf(path, sizeof path, "%s/gid_attrs/types/%d", port, i);
        if (!dt_probe_read(root, path, text, sizeof text) || strcmp(text, "RoCE v2") != 0)
            continue;
        snprintf(path, sizeof path, "%s/gids/%d", port, i);
        dt_probe_read(root, path, text, sizeof text);
        /* Link-local ones are there without any address. */
        if (text[strspn(text, "0:")] && strncmp(text, "fe80:", 5) != 0)
            return true;
    }
    return false;
}

static void read_port(const char *root, const char *device, const char *number,
                      struct dt_ib_port *p)
{
    char port[192], path[256], text[32];
    *p = (struct dt_ib_port){.number = atoi(number)};
    snprintf(p->device, sizeof p->device, "%s", device);
    snprintf(port, sizeof port, DEVICES "/%s/ports/%s", device, number);
    snprintf(path, sizeof path, "%s/state", port);
    read_state(root, path, p->state);
    snprintf(path, sizeof path, "%s/phys_state", port);
    read_state(root, path, p->physical);
    snprintf(path, sizeof path, "%s/rate", port);
    dt_probe_read(root, path, p->rate, sizeof p->rate);
    snprintf(path, sizeof path, "%s/link_layer", port);
    dt_probe_read(root, path, text, sizeof text);
    p->is_ethernet = strcmp(text, "Ethernet") == 0;
    p->has_routed_gid = find_routed_gid(root, port);
    snprintf(path, sizeof path, "%s/counters/link_downed", port);
    p->times_down = dt_probe_read_number(root, path, -1);
}

static bool has_verbs(const char *root)
{
    char names[32][DT_PROBE_NAME];
    size_t n = dt_probe_list(root, "/dev/infiniband", names, 32);
    for (size_t i = 0; i < n; i++)
        if (strncmp(names[i], "uverbs", 6) == 0)
            return true;
    return false;
}

void dt_ib_probe(const struct dt_checkup *c, struct dt_sheet *sheet)
{
    char devices[DT_IB_PORTS][DT_PROBE_NAME], ports[4][DT_PROBE_NAME], path[160];
    struct dt_ib ib = {.has_verbs = has_verbs(c->root)};
    size_t n = dt_probe_list(c->root, DEVICES, devices, DT_IB_PORTS);
    for (size_t i = 0; i < n; i++) {
        snprintf(path, sizeof path, DEVICES "/%s/ports", devices[i]);
        size_t count = dt_probe_list(c->root, path, ports, 4);
        for (size_t k = 0; k < count && ib.count < DT_IB_PORTS; k++)
            read_port(c->root, devices[i], ports[k], &ib.at[ib.count++]);
    }
    dt_ib_judge(&ib, sheet);
}
