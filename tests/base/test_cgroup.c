/* SPDX-License-Identifier: Apache-2.0 */
/* Control groups as kernels of several kinds show them, in a folder that stands for "/". */
#include "base/cgroup.h"
#include "base/fs.h"
#include "tests/lib/check.h"
#include "tests/lib/folder.h"

BEFORE_ALL
{
    folder_make();
}

/* A file of the host NAME, with its folders. */
static void put(const char *host, const char *path, const char *text)
{
    struct dt_err err;
    char full[512], *slash;
    snprintf(full, sizeof full, "%s/%s%s", dir, host, path);
    slash = strrchr(full, '/');
    *slash = '\0';
    CHECK_OK(dt_fs_mkdir_p(full, 0700, &err), err);
    *slash = '/';
    CHECK_OK(dt_fs_replace(full, text, strlen(text), 0600, &err), err);
}

#define V2_MOUNT "30 24 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
#define V1_MOUNTS                                                                                  \
    "22 20 0:5 / /proc rw - proc proc rw\n"                                                        \
    "31 25 0:27 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"                                \
    "33 25 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"                  \
    "34 25 0:30 / /sys/fs/cgroup/memory rw shared:9 master:2 - cgroup cgroup rw,memory\n"

TEST(the_group_is_found_below_its_mount)
{
    /* clang-format off */
    static const struct {
        const char *host, *mounts, *names, *folder;
        bool v2;
    } rows[] = {
        {"v2", V2_MOUNT, "0::/user.slice/a b\n", "/sys/fs/cgroup/user.slice/a b", true},
        {"v2-top", V2_MOUNT, "0::/\n", "/sys/fs/cgroup", true},
        {"v2-outside", V2_MOUNT, "0::/../other\n", "/sys/fs/cgroup", true},
        {"hybrid", V1_MOUNTS, "4:memory:/job\n3:cpu,cpuacct:/x\n0::/y\n", "/sys/fs/cgroup/memory/job", false},
        {"joined", "9 1 0:1 / /cg rw - cgroup none rw,cpu,memory\n", "2:cpu,memory:/q\n", "/cg/q", false},
        {"container", "9 1 0:1 /docker/77 /cg rw - cgroup none rw,memory\n", "2:memory:/docker/77/w\n", "/cg/w", false},
        {"another", "9 1 0:1 /docker/77 /cg rw - cgroup none rw,memory\n", "2:memory:/docker/778\n", "/cg", false},
        {"not-mounted", "9 1 0:1 / /cg rw - cgroup none rw,cpu\n", "2:memory:/q\n", "", false},
        {"in-none", V1_MOUNTS, "", "", false},
        {"torn", "9 1 0:1 / /cg rw - cgroup\nx\n - \n\n", "2:memory\n:\nx\n", "", false},
    };
    /* clang-format on */
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct dt_cgroup g;
        CHECK_ROW("%s", rows[i].host);
        put(rows[i].host, "/proc/self/mountinfo", rows[i].mounts);
        put(rows[i].host, "/proc/self/cgroup", rows[i].names);
        dt_cgroup_find(&g, "memory", at(rows[i].host));
        CHECK_STR(g.folder, rows[i].folder);
        CHECK(!*g.folder || g.v2 == rows[i].v2);
    }
    struct dt_cgroup g;
    dt_cgroup_find(&g, "memory", at("no such host"));
    CHECK_STR(g.folder, "");
    CHECK_EQ(dt_cgroup_memory_limit(&g), -1);
    CHECK_EQ(dt_cgroup_oom_counts(&g).own, -1);
}

static void check_counts(const char *host, int64_t own, int64_t below, int64_t of_host)
{
    struct dt_cgroup g;
    CHECK_ROW("%s", host);
    dt_cgroup_find(&g, "memory", at(host));
    struct dt_oom_counts c = dt_cgroup_oom_counts(&g);
    CHECK_EQ(c.own, own);
    CHECK_EQ(c.below, below);
    CHECK_EQ(c.host, of_host);
}

TEST(kills_for_want_of_memory_are_counted_where_the_kernel_does)
{
    put("v2", "/proc/vmstat", "nr_free_pages 7\noom_kill 5\noom_killer 9\n");
    put("v2", "/sys/fs/cgroup/user.slice/a b/memory.events", "low 0\noom 4\noom_kill 3\n");
    check_counts("v2", -1, 3, 5); /* a kernel before 5.2 */
    put("v2", "/sys/fs/cgroup/user.slice/a b/memory.events.local", "oom 4\noom_kill 2\n");
    check_counts("v2", 2, 3, 5);
    put("hybrid", "/sys/fs/cgroup/memory/job/memory.oom_control", "under_oom 0\noom_kill 1\n");
    check_counts("hybrid", 1, -1, -1);
    put("hybrid", "/sys/fs/cgroup/memory/job/memory.oom_control", "under_oom 0\n");
    check_counts("hybrid", -1, -1, -1); /* a kernel before 4.13 */
}

TEST(the_least_limit_on_the_way_up_counts)
{
    struct dt_cgroup g;
    dt_cgroup_find(&g, "memory", at("hybrid"));
    CHECK_EQ(dt_cgroup_memory_limit(&g), -1);
    put("hybrid", "/sys/fs/cgroup/memory/job/memory.limit_in_bytes", "9223372036854771712\n");
    CHECK_EQ(dt_cgroup_memory_limit(&g), -1);
    put("hybrid", "/sys/fs/cgroup/memory/job/memory.usage_in_bytes", "4096\n");
    CHECK_EQ(dt_cgroup_memory(&g).used, 4096);
    put("hybrid", "/sys/fs/cgroup/memory/memory.limit_in_bytes", "83886080\n");
    CHECK_EQ(dt_cgroup_memory_limit(&g), 80 << 20);
    CHECK_EQ(dt_cgroup_memory(&g).used, -1);
    put("hybrid", "/sys/fs/cgroup/memory/memory.usage_in_bytes", "8192\n");
    CHECK_EQ(dt_cgroup_memory(&g).used, 8192);
    dt_cgroup_find(&g, "memory", at("v2"));
    put("v2", "/sys/fs/cgroup/user.slice/a b/memory.max", "4096\n");
    put("v2", "/sys/fs/cgroup/user.slice/memory.max", "max\n");
    put("v2", "/sys/fs/cgroup/memory.max", "8192\n");
    put("v2", "/sys/fs/cgroup/user.slice/a b/memory.current", "1024\n");
    CHECK_EQ(dt_cgroup_memory_limit(&g), 4096);
    CHECK_EQ(dt_cgroup_memory(&g).used, 1024);
}

TEST(what_is_left_is_the_least_of_host_and_groups)
{
    struct dt_cgroup g;
    put("left", "/proc/self/mountinfo", V2_MOUNT);
    put("left", "/proc/self/cgroup", "0::/job/worker\n");
    dt_cgroup_find(&g, "memory", at("left"));
    CHECK_EQ(dt_cgroup_memory_left(&g), -1);
    put("left", "/proc/meminfo", "MemTotal: 900 kB\nMemAvailable:     500 kB\n");
    CHECK_EQ(dt_cgroup_memory_left(&g), 500 * 1024);
    put("left", "/sys/fs/cgroup/job/memory.max", "100000\n");
    CHECK_EQ(dt_cgroup_memory_left(&g), 500 * 1024); /* it does not tell what is used */
    put("left", "/sys/fs/cgroup/job/memory.current", "80000\n");
    CHECK_EQ(dt_cgroup_memory_left(&g), 20000);
    put("left", "/sys/fs/cgroup/job/memory.stat",
        "anon 50000\ninactive_file 30000\nactive_file 1\n");
    CHECK_EQ(dt_cgroup_memory_left(&g), 50000);
    put("left", "/sys/fs/cgroup/job/worker/memory.max", "1000\n");
    put("left", "/sys/fs/cgroup/job/worker/memory.current", "4000\n");
    CHECK_EQ(dt_cgroup_memory_left(&g), 0);
}

TEST(the_group_of_another_process_is_its_own)
{
    struct dt_cgroup g;
    put("v2", "/proc/812/cgroup", "0::/other.slice\n");
    dt_cgroup_find_of(&g, 812, "memory", at("v2"));
    CHECK_STR(g.folder, "/sys/fs/cgroup/other.slice");
    dt_cgroup_find_of(&g, 813, "memory", at("v2"));
    CHECK_STR(g.folder, "");
}

TEST(the_group_with_least_room_for_processes_counts)
{
    struct dt_cgroup g;
    struct dt_cgroup_pids p;
    dt_cgroup_find(&g, "pids", at("v2"));
    CHECK(!dt_cgroup_pids_limit(&g, &p));
    put("v2", "/sys/fs/cgroup/user.slice/a b/pids.max", "100\n");
    put("v2", "/sys/fs/cgroup/user.slice/a b/pids.current", "20\n");
    put("v2", "/sys/fs/cgroup/user.slice/pids.max", "300\n");
    put("v2", "/sys/fs/cgroup/user.slice/pids.current", "299\n");
    CHECK(dt_cgroup_pids_limit(&g, &p));
    CHECK_EQ(p.max, 300);
    CHECK_EQ(p.current, 299);
    CHECK_STR(p.folder, "/sys/fs/cgroup/user.slice");
}
