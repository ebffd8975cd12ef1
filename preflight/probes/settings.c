/* SPDX-License-Identifier: Apache-2.0 */
#include "preflight/probes/settings.h"

#include <stdio.h>
#include <string.h>

#define FREQUENCY "/sys/devices/system/cpu/cpufreq/policy0"
#define HUGE_PAGES "/sys/kernel/mm/transparent_hugepage"

/* "powersave" of the drivers that let the processor itself choose is no limit. */
static bool is_slow(const struct dt_settings *k)
{
    bool chooses = strstr(k->driver, "pstate") != NULL;
    return strcmp(k->governor, "powersave") == 0 && !chooses;
}

void dt_settings_judge(const struct dt_settings *k, struct dt_sheet *sheet)
{
    size_t before = sheet->remark_count;
    if (is_slow(k))
        dt_sheet_remark(sheet, "kernel", DT_GRADE_WARN, "cpupower frequency-set -g performance",
                        "the governor \"powersave\" keeps processors at their lowest clock");
    if (strcmp(k->huge_pages, "never") == 0)
        dt_sheet_remark(sheet, "kernel", DT_GRADE_NOTE, "echo madvise > " HUGE_PAGES "/enabled",
                        "transparent huge pages are off: work on large arrays is slower");
    if (strcmp(k->defrag, "always") == 0)
        dt_sheet_remark(sheet, "kernel", DT_GRADE_NOTE, "echo madvise > " HUGE_PAGES "/defrag",
                        "any use of memory may wait until the kernel has moved pages together");
    if (k->balances_numa)
        dt_sheet_remark(sheet, "kernel", DT_GRADE_NOTE, "sysctl kernel.numa_balancing=0",
                        "NUMA balancing moves pages while workers run, which can hold up the ranks "
                        "of a step");
    if (sheet->remark_count == before)
        dt_sheet_remark(
            sheet, "kernel", DT_GRADE_OK, NULL, "governor %s, transparent huge pages %s",
            *k->governor ? k->governor : "not shown", *k->huge_pages ? k->huge_pages : "not shown");
}

void dt_settings_probe(const struct dt_checkup *c, struct dt_sheet *sheet)
{
    struct dt_settings k = {0};
    char chosen[64];
    dt_probe_read(c->root, FREQUENCY "/scaling_governor", k.governor, sizeof k.governor);
    dt_probe_read(c->root, FREQUENCY "/scaling_driver", k.driver, sizeof k.driver);
    dt_probe_read(c->root, HUGE_PAGES "/enabled", chosen, sizeof chosen);
    dt_probe_chosen(chosen);
    snprintf(k.huge_pages, sizeof k.huge_pages, "%.15s", chosen);
    dt_probe_read(c->root, HUGE_PAGES "/defrag", chosen, sizeof chosen);
    dt_probe_chosen(chosen);
    snprintf(k.defrag, sizeof k.defrag, "%.31s", chosen);
    bool many =
        dt_probe_read(c->root, "/sys/devices/system/node/node1/cpulist", chosen, sizeof chosen);
    k.balances_numa =
        many && dt_probe_read_number(c->root, "/proc/sys/kernel/numa_balancing", 0) > 0;
    dt_settings_judge(&k, sheet);
}
