/* SPDX-License-Identifier: Apache-2.0 */
#include "preflight/probes/settings.h"
#include "tests/preflight/judged.h"

BEFORE_ALL
{
    folder_make();
}

TEST(what_is_said_of_them)
{
    /* clang-format off */
    static const struct { struct dt_settings k; const char *words; } rows[] = {
        {{"performance", "acpi-cpufreq", "madvise", "madvise", false}, "ok: governor performance, transparent huge pages madvise"},
        {{"", "", "", "", false}, "ok: governor not shown"},
        {{"powersave", "acpi-cpufreq", "always", "madvise", false}, "warn: the governor \"powersave\""},
        {{"powersave", "intel_pstate", "always", "madvise", false}, "ok: "},
        {{"powersave", "amd-pstate-epp", "always", "madvise", false}, "ok: "},
        {{"performance", "", "never", "madvise", false}, "note: transparent huge pages are off"},
        {{"performance", "", "always", "always", false}, "note: any use of memory may wait"},
        {{"performance", "", "always", "madvise", true}, "note: NUMA balancing"},
    };
    /* clang-format on */
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct dt_sheet *s = fresh_sheet();
        CHECK_ROW("row %zu", i);
        dt_settings_judge(&rows[i].k, s);
        check_said(s, rows[i].words);
        CHECK_EQ(s->remark_count, 1);
    }
}

TEST(a_recorded_host)
{
    struct dt_sheet *s = fresh_sheet();
    put("a", "/sys/devices/system/cpu/cpufreq/policy0/scaling_governor", "schedutil\n");
    put("a", "/sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]\n");
    put("a", "/sys/kernel/mm/transparent_hugepage/defrag", "[always] defer madvise never\n");
    put("a", "/sys/devices/system/node/node1/cpulist", "16-31\n");
    put("a", "/proc/sys/kernel/numa_balancing", "1\n");
    dt_settings_probe(&(struct dt_checkup){.root = at("a")}, s);
    CHECK_EQ(s->remark_count, 3);
    check_said(s, "huge pages are off");
    check_said(s, "may wait");
    check_said(s, "NUMA balancing");
}
