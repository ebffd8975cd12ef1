/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/lag/reason.h"
#include "base/fs.h"
#include "tests/lib/check.h"
#include "tests/lib/folder.h"

#include <sched.h>
#include <string.h>
#include <unistd.h>

BEFORE_ALL
{
    folder_make();
}

/* -- what explains it ------------------------------------------------------------------------- */

static char text[DT_OWN_REASON_MAX];

TEST(what_tells_a_worker_from_the_others_explains_it)
{
    /* clang-format off */
    static const struct {
        struct dt_lag_signs slow, other;
        const char *rival, *where, *reason;
    } rows[] = {
        {{0}, {0}, "", "", ""},
        {{.waited = 400}, {.waited = 100}, "", "", "other programs run on its processors: it is ready and has to wait for 40 % of the time"},
        {{.waited = 400}, {.waited = 100}, "burn (pid 7)", "", "other programs run on its processors: it is ready and has to wait for 40 % of the time; one is burn (pid 7)"},
        {{.waited = 400}, {.waited = 300}, "burn (pid 7)", "", ""},
        {{.waited = 40}, {0}, "", "", ""},
        {{.stopped = 500, .asleep = 500}, {0}, "", "a.py:1 in f()", "signals stop it again and again, 50 % of the time"},
        {{.throttled = 350}, {.throttled = 10}, "", "", "its control group may use no more processor time (cpu.max), 35 % of the time"},
        {{.throttled = 900, .waited = 930}, {0}, "", "", "its control group may use no more processor time (cpu.max), 90 % of the time"},
        {{.stolen = 220}, {.stolen = 20}, "", "", "the host of this virtual machine takes its processors away, 22 % of the time (steal)"},
        {{.heat = 12}, {0}, "", "", "its processors are too hot: they were slowed down 12 times within seconds"},
        {{.heat = 12, .waited = 300}, {0}, "", "", "other programs run on its processors: it is ready and has to wait for 30 % of the time"},
        {{.slow = 500}, {0}, "", "", "the clock of its processors is slower than that of the others by 50 %"},
        {{.faults = 300}, {0}, "", "", "its memory comes back from a disk: 300 page faults a second"},
        {{.disk = 300, .asleep = 300}, {0}, "", "", "it waits for a disk, 30 % of the time"},
        {{.data = 600, .asleep = 590}, {.data = 10}, "", "", "it waits for its data, 60 % of the time"},
        {{.asleep = 640, .waited = 230}, {0}, "", "train.py:31 in load_batch()", "it sleeps outside of collectives, 64 % of the time, mostly at train.py:31 in load_batch()"},
        {{.asleep = 640, .waited = 230}, {.asleep = 500}, "", "", "other programs run on its processors: it is ready and has to wait for 23 % of the time"},
    };
    /* clang-format on */
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct dt_lag_signs all[] = {rows[i].other, rows[i].slow, rows[i].other};
        CHECK_ROW("%zu", i);
        dt_lag_reason(all, 3, 1, true, rows[i].rival, rows[i].where, text);
        CHECK_STR(text, rows[i].reason);
    }
}

TEST(what_all_workers_of_a_node_share_explains_it_where_there_are_other_nodes)
{
    struct dt_lag_signs all[] = {{.throttled = 300}, {.throttled = 310}};
    CHECK_STR(dt_lag_reason(all, 2, 1, true, "", "", text), "");
    CHECK(strstr(dt_lag_reason(all, 2, 1, false, "", "", text), "cpu.max") != NULL);
    CHECK(strstr(dt_lag_reason(all, 1, 0, true, "", "", text), "cpu.max") != NULL);
}

TEST(a_clock_is_compared_with_the_median)
{
    struct dt_lag_facts now[] = {{.mhz = 2600}, {.mhz = 1300}, {.mhz = 2500}, {.mhz = 0}};
    struct dt_lag_signs all[4] = {{0}};
    dt_lag_signs_compare_clocks(all, 3, now);
    CHECK_EQ(all[0].slow, 0);
    CHECK_EQ(all[1].slow, 480);
    dt_lag_signs_compare_clocks(all, 4, now);
    CHECK_EQ(all[3].slow, 0);
}

TEST(counts_of_two_readings_become_shares_and_settle_within_some_windows)
{
    struct dt_gauge_part part = {.data = 300, .samples = 10, .stopped = 5};
    struct dt_lag_facts a = {.there = true, .at_ns = 1}, b = {.there = true,
                                                              .at_ns = 1 + 2000000000,
                                                              .waited_ns = 500000000,
                                                              .throttled_us = 200000,
                                                              .stolen_ms = 300,
                                                              .processor_ms = 3000,
                                                              .heat = 8,
                                                              .faults = 400,
                                                              .disk_ms = 1000};
    struct dt_lag_signs s = {0};
    for (int i = 0; i < 12; i++)
        dt_lag_signs_note(&s, &part, &a, &b);
    CHECK_EQ(s.waited, 250);
    CHECK_EQ(s.throttled, 100);
    CHECK_EQ(s.stolen, 100);
    CHECK_EQ(s.heat, 8);
    CHECK_EQ(s.faults, 200);
    CHECK_EQ(s.disk, 500);
    CHECK_EQ(s.data, 300);
    CHECK_EQ(s.stopped, 500);
    b.there = false;
    for (int i = 0; i < 12; i++)
        dt_lag_signs_note(&s, &part, &a, &b);
    CHECK_EQ(s.waited, 0);
    CHECK_EQ(s.data, 300);
}

/* -- what the kernel shows -------------------------------------------------------------------- */

static void put(const char *path, const char *content)
{
    struct dt_err err;
    char full[512], *slash;
    snprintf(full, sizeof full, "%s%s", dir, path);
    slash = strrchr(full, '/');
    *slash = '\0';
    CHECK_OK(dt_fs_mkdir_p(full, 0700, &err), err);
    *slash = '/';
    CHECK_OK(dt_fs_replace(full, content, strlen(content), 0600, &err), err);
}

static void put_process(int pid, const char *name, char state, int utime, int processor)
{
    char path[64], content[256];
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    snprintf(
        content, sizeof content,
        "%d (%s) %c 1 1 1 0 -1 0 10 0 77 0 %d 5 0 0 20 0 1 0 100 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 "
        "17 %d 0 0 250 0\n",
        pid, name, state, utime, processor);
    put(path, content);
}

/* This process itself: whose processors the kernel tells, whatever stands in the folder. */
static int on_one_processor(void)
{
    cpu_set_t set;
    int mine = sched_getcpu();
    CPU_ZERO(&set);
    CPU_SET((size_t)mine, &set);
    CHECK_EQ(sched_setaffinity(0, sizeof set, &set), 0);
    return mine;
}

static void put_of_processor(int n, const char *file, const char *content)
{
    char path[128];
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/%s", n, file);
    put(path, content);
}

TEST(the_kernel_counts_what_keeps_a_process)
{
    int mine = on_one_processor(), pid = (int)getpid();
    char path[96], content[256];
    struct dt_lag_facts f;
    put_process(pid, "a ) b", 'S', 100, mine);
    snprintf(path, sizeof path, "/proc/%d/task/%d/schedstat", pid, pid);
    put(path, "7000 30 5\n");
    snprintf(path, sizeof path, "/proc/%d/task/%d/schedstat", pid, pid + 1);
    put(path, "100 900 5\n");
    snprintf(path, sizeof path, "/proc/%d/cgroup", pid);
    put(path, "0::/job\n");
    put("/proc/self/mountinfo", "30 24 0:26 / /cg rw,nosuid shared:4 - cgroup2 cgroup2 rw\n");
    put("/cg/job/cpu.stat", "usage_usec 5\nnr_throttled 3\nthrottled_usec 4500\n");
    snprintf(content, sizeof content,
             "cpu  9 9 9 9 9 9 9 9 9 9\ncpu%d 10 0 20 60 0 0 0 10 0 0\ncpu%d 1 1 1 1 1 1 1 1 0 0\n",
             mine, mine + 1);
    put("/proc/stat", content);
    put_of_processor(mine, "thermal_throttle/core_throttle_count", "12\n");
    put_of_processor(mine, "cpufreq/scaling_cur_freq", "2600000\n");
    dt_lag_facts_read(&f, pid, dir);
    CHECK(f.there);
    CHECK_EQ(f.waited_ns, 900);
    CHECK_EQ(f.throttled_us, 4500);
    CHECK_EQ(f.stolen_ms * 10, f.processor_ms);
    CHECK_EQ(f.heat, 12);
    CHECK_EQ(f.mhz, 2600);
    CHECK_EQ(f.faults, 77);
    CHECK_EQ(f.disk_ms, 250 * 1000 / sysconf(_SC_CLK_TCK));
    CHECK_EQ(dt_lag_ran_ns(pid, dir), 7030);
}

TEST(of_a_process_that_is_gone_or_torn_nothing_is_known)
{
    struct dt_lag_facts f;
    put("/proc/91/stat", "91 (x");
    put("/proc/91/task/91/schedstat", "seven\n");
    for (int pid = 90; pid < 92; pid++) {
        dt_lag_facts_read(&f, pid, dir);
        CHECK(!f.there);
        CHECK_EQ(dt_lag_ran_ns(pid, dir), 0);
    }
}

TEST(who_runs_on_its_processors_is_found)
{
    char name[DT_LAG_NAME_MAX];
    pid_t rival = 0;
    int mine = on_one_processor(), pid = (int)getpid();
    put_process(pid, "me", 'R', 900, mine);
    put_process(70001, "asleep", 'S', 900, mine);
    put_process(70002, "elsewhere", 'R', 900, mine + 1);
    CHECK(!dt_lag_rival(pid, dir, &rival, name));
    put_process(70003, "short", 'R', 10, mine);
    put_process(70004, "burn\033[1m", 'R', 500, mine);
    CHECK(dt_lag_rival(pid, dir, &rival, name));
    CHECK_EQ(rival, 70004);
    CHECK_STR(name, "burn\\x1b[1m");
}
