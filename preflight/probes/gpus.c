/* SPDX-License-Identifier: Apache-2.0 */
#include "preflight/probes/gpus.h"

#include "base/str.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define LINKS_MAX 18u
#define LEFT_BEHIND ((uint64_t)4 << 30) /* more than any driver keeps for itself */

static void judge_memory(const struct dt_card *k, struct dt_sheet *sheet)
{
    char used[32], all[32];
    if (k->uncorrected > 0)
        dt_sheet_remark(sheet, "gpus", DT_GRADE_FAIL,
                        "reset it: nvidia-smi --gpu-reset, or drain "
                        "this host",
                        "GPU %d had %" PRIu64 " errors of memory that could not be corrected",
                        k->number, k->uncorrected);
    if (k->row_failed)
        dt_sheet_remark(sheet, "gpus", DT_GRADE_FAIL, "have it replaced",
                        "GPU %d has a bad row of memory and no spare row for it", k->number);
    else if (k->row_pending)
        dt_sheet_remark(sheet, "gpus", DT_GRADE_WARN, "reset it: nvidia-smi --gpu-reset",
                        "GPU %d replaces a bad row of its memory at the next reset", k->number);
    if (k->used > LEFT_BEHIND)
        dt_sheet_remark(sheet, "gpus", DT_GRADE_WARN,
                        "nvidia-smi shows whose it is; a dead job's processes may be left",
                        "%s of the %s of GPU %d are in use",
                        dt_str_from_size(k->used, used, sizeof used),
                        dt_str_from_size(k->memory, all, sizeof all), k->number);
}

static void judge_card(const struct dt_card *k, struct dt_sheet *sheet)
{
    judge_memory(k, sheet);
    if (k->slowed & DT_CARD_SLOWED_BY_HEAT)
        dt_sheet_remark(sheet, "gpus", DT_GRADE_WARN, "look at the fans and the air around it",
                        "GPU %d is slowed down because it is too hot", k->number);
    if (k->slowed & DT_CARD_SLOWED_BY_POWER)
        dt_sheet_remark(sheet, "gpus", DT_GRADE_WARN, "look at the power supply",
                        "GPU %d is slowed down by its hardware, mostly for want of power",
                        k->number);
    if (k->links_up > 0 && k->links_down > 0)
        dt_sheet_remark(sheet, "gpus", DT_GRADE_WARN, "nvidia-smi nvlink --status",
                        "%d of %d NVLinks of GPU %d are down", k->links_down,
                        k->links_up + k->links_down, k->number);
}

static void judge_counts(const struct dt_cards *g, int workers, struct dt_sheet *sheet)
{
    int count = (int)g->count;
    if (g->by_driver > count)
        dt_sheet_remark(sheet, "gpus", DT_GRADE_FAIL,
                        "dmesg | grep Xid says why; a reboot mostly brings it back",
                        "the driver knows %d GPUs, but only %d answer", g->by_driver, count);
    if (count > 0 && workers > count)
        dt_sheet_remark(sheet, "gpus", DT_GRADE_NOTE, "--nproc-per-node gpu starts one for each",
                        "there are %d workers, but %d GPU%s", workers, count,
                        count == 1 ? "" : "s");
    if (count > 0 && g->at[0].not_kept)
        dt_sheet_remark(sheet, "gpus", DT_GRADE_NOTE, "start nvidia-persistenced",
                        "without persistence mode a GPU takes seconds to start when nobody uses "
                        "it");
    for (size_t i = 1; i < g->count; i++) {
        if (strcmp(g->at[i].name, g->at[0].name) == 0)
            continue;
        dt_sheet_remark(sheet, "gpus", DT_GRADE_NOTE, "the fast ones wait for the slow ones",
                        "GPUs differ: GPU 0 is %s, GPU %d is %s", g->at[0].name, g->at[i].number,
                        g->at[i].name);
        return;
    }
}

void dt_gpus_judge(const struct dt_cards *g, int workers, struct dt_sheet *sheet)
{
    size_t before = sheet->remark_count;
    if (g->opened == DT_NVML_NO_START && g->by_driver > 0)
        dt_sheet_remark(sheet, "gpus", DT_GRADE_FAIL,
                        "nvidia-smi says more; after an update of the driver load it anew",
                        "NVIDIA's management library does not start (error %d)", g->status);
    else if (g->opened != DT_NVML_OPEN && g->by_driver > 0)
        dt_sheet_remark(sheet, "gpus", DT_GRADE_WARN,
                        "a container needs NVIDIA_DRIVER_CAPABILITIES=utility,compute",
                        "there is a driver for %d GPUs, but no libnvidia-ml.so.1 that fits",
                        g->by_driver);
    if (g->opened == DT_NVML_OPEN) {
        judge_counts(g, workers, sheet);
        for (size_t i = 0; i < g->count; i++)
            judge_card(&g->at[i], sheet);
    }
    if (g->count > 0)
        dt_sheet_set(sheet, "GPUs", "%zu %s", g->count, g->at[0].name);
    if (sheet->remark_count > before)
        return;
    if (g->count == 0)
        dt_sheet_remark(sheet, "gpus", DT_GRADE_OK, NULL, "this host has none of NVIDIA's");
    else
        dt_sheet_remark(sheet, "gpus", DT_GRADE_OK, NULL, "%zu %s, in good health", g->count,
                        g->at[0].name);
}

static void count_links(const struct dt_nvml *n, dt_nvml_device device, struct dt_card *k)
{
    for (unsigned link = 0; n->nvlink && link < LINKS_MAX; link++) {
        int active = 0;
        if (n->nvlink(device, link, &active) != DT_NVML_OK)
            return; /* it has no more */
        k->links_up += active == 1;
        k->links_down += active != 1;
    }
}

/* What a card does not tell is as if all were well. */
static void read_card(const struct dt_nvml *n, dt_nvml_device device, struct dt_card *k)
{
    struct dt_nvml_memory memory = {0};
    unsigned long long errors = 0;
    unsigned corrected, uncorrected, pending = 0, failed = 0;
    int kept = 1;
    if (!n->name || n->name(device, k->name, sizeof k->name) != DT_NVML_OK)
        strcpy(k->name, "GPU");
    if (n->memory && n->memory(device, &memory) == DT_NVML_OK) {
        k->memory = memory.total;
        k->used = memory.used;
    }
    if (n->ecc_errors && n->ecc_errors(device, 1, 0, &errors) == DT_NVML_OK)
        k->uncorrected = errors;
    if (n->remapped_rows &&
        n->remapped_rows(device, &corrected, &uncorrected, &pending, &failed) == DT_NVML_OK) {
        k->row_pending = pending != 0;
        k->row_failed = failed != 0;
    }
    if (!n->throttle || n->throttle(device, &k->slowed) != DT_NVML_OK)
        k->slowed = 0;
    k->not_kept = n->persistence && n->persistence(device, &kept) == DT_NVML_OK && kept == 0;
    count_links(n, device, k);
}

void dt_gpus_probe(const struct dt_checkup *c, struct dt_sheet *sheet)
{
    char cards[DT_CARDS_MAX][DT_PROBE_NAME];
    struct dt_nvml n;
    struct dt_cards g = {0};
    unsigned count = 0;
    snprintf(sheet->doing, sizeof sheet->doing, "NVIDIA's driver");
    g.by_driver = (int)dt_probe_list(c->root, "/proc/driver/nvidia/gpus", cards, DT_CARDS_MAX);
    g.opened = dt_nvml_open(&n, &g.status);
    if (g.opened == DT_NVML_OPEN && n.count(&count) != DT_NVML_OK)
        count = 0;
    for (unsigned i = 0; i < count && i < DT_CARDS_MAX; i++) {
        dt_nvml_device device;
        if (n.device(i, &device) != DT_NVML_OK)
            continue;
        g.at[g.count].number = (int)i;
        read_card(&n, device, &g.at[g.count++]);
    }
    dt_nvml_close(&n, g.opened);
    dt_gpus_judge(&g, c->workers, sheet);
}
