/* SPDX-License-Identifier: Apache-2.0 */
#include "preflight/probes/cpus.h"
#include "tests/preflight/judged.h"

BEFORE_ALL
{
    folder_make();
}

TEST(lists_of_processors)
{
    static const struct {
        const char *list;
        int count;
    } rows[] = {{"0", 1},  {"0-3", 4}, {"0-3,8,10-11", 7},           {"", 0}, {"x", 0}, {"3-1", 0},
                {"0-", 0}, {"-5", 0},  {"0-99999999999999999999", 0}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("\"%s\"", rows[i].list);
        CHECK_EQ(dt_cpus_count(rows[i].list), rows[i].count);
    }
}

TEST(what_is_said_of_them)
{
    /* clang-format off */
    static const struct { struct dt_cpus p; int workers; const char *words; } rows[] = {
        {{64, 64, 0}, 8, "ok: 64 of 64 processors may be used"},
        {{64, 16, 0}, 8, "ok: 16 of 64 processors may be used"},
        {{64, 4, 0}, 8, "warn: 8 workers share 4 processors"},
        {{64, 64, 1.5}, 1, "warn: the control group has the time of 1.5 processors, but programs see 64"},
        {{64, 8, 8}, 1, "ok: "},
    };
    /* clang-format on */
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct dt_sheet *s = fresh_sheet();
        CHECK_ROW("row %zu", i);
        dt_cpus_judge(&rows[i].p, rows[i].workers, s);
        check_said(s, rows[i].words);
        CHECK_EQ(s->remark_count, 1);
    }
}

TEST(the_least_limit_of_all_groups_counts)
{
    struct dt_sheet *s = fresh_sheet();
    put("v2", "/sys/devices/system/cpu/online", "0-63\n");
    put("v2", "/proc/self/status", "Name:\tx\nCpus_allowed_list:\t0-31\nMems_allowed:\t1\n");
    put("v2", "/proc/self/cgroup", "0::/pod/container\n");
    put("v2", "/proc/self/mountinfo", "30 24 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
    put("v2", "/sys/fs/cgroup/pod/container/cpu.max", "max 100000\n");
    put("v2", "/sys/fs/cgroup/pod/cpu.max", "250000 100000\n");
    dt_cpus_probe(&(struct dt_checkup){.root = at("v2"), .workers = 1}, s);
    check_said(s, "time of 2.5 processors, but programs see 32");

    s = fresh_sheet();
    put("v1", "/sys/devices/system/cpu/online", "0-7\n");
    put("v1", "/proc/self/cgroup", "3:cpu,cpuacct:/q\n");
    put("v1", "/proc/self/mountinfo", "33 25 0:29 / /cg rw - cgroup cgroup rw,cpu,cpuacct\n");
    put("v1", "/cg/q/cpu.cfs_quota_us", "50000\n");
    put("v1", "/cg/q/cpu.cfs_period_us", "100000\n");
    put("v1", "/cg/cpu.cfs_quota_us", "-1\n");
    dt_cpus_probe(&(struct dt_checkup){.root = at("v1"), .workers = 1}, s);
    check_said(s, "time of 0.5 processors, but programs see 8");
}
