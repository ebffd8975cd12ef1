/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/failure/kernel_log.h"
#include "tests/lib/check.h"

#define BUS "GPU has fallen off the bus."

static bool is_own(void *arg, pid_t pid)
{
    (void)arg;
    return pid == 812;
}

static void take(struct dt_kernel_log *l, const char *words)
{
    char record[256];
    snprintf(record, sizeof record, "3,1,2,-;%s\n", words);
    dt_kernel_log_take(l, dt_bytes_of(record));
}

TEST(a_kill_is_found_by_its_process)
{
    struct dt_kernel_log *l = dt_kernel_log_open_empty(true, is_own, NULL);
    take(l, "eth0: link is up");
    take(l, "Out of memory: Killed process 812 (python) anon-rss:4kB");
    CHECK(dt_kernel_log_kill(l, 811) == NULL);
    const struct dt_kernel_record *r = dt_kernel_log_kill(l, 812);
    CHECK(r != NULL);
    CHECK_EQ(r->resident, 4096);
    CHECK(dt_kernel_log_xid(l, 812) == NULL);
    dt_kernel_log_close(l);
}

TEST(the_xid_of_the_process_itself_comes_before_one_of_nobody_and_a_broken_gpu_before_a_fault)
{
    struct dt_kernel_log *l = dt_kernel_log_open_empty(true, is_own, NULL);
    take(l, "NVRM: Xid (PCI:0000:01:00): 154, pid='<unknown>', told first");
    take(l, "NVRM: Xid (PCI:0000:02:00): 79, pid='<unknown>', " BUS);
    take(l, "NVRM: Xid (PCI:0000:03:00): 31, pid=7, a fault");
    take(l, "NVRM: Xid (PCI:0000:04:00): 31, pid=7, again");
    CHECK(strstr(dt_kernel_log_xid(l, 8)->text, ":02:00)") != NULL);
    CHECK(strstr(dt_kernel_log_xid(l, 7)->text, ":03:00)") != NULL);
    take(l, "NVRM: Xid (PCI:0000:05:00): 95, pid=7, memory");
    CHECK(strstr(dt_kernel_log_xid(l, 7)->text, ":05:00)") != NULL);
    dt_kernel_log_close(l);
}

/* In a container the kernel's numbers are those of other processes. */
TEST(where_the_kernel_numbers_processes_otherwise_no_number_is_believed)
{
    struct dt_kernel_log *l = dt_kernel_log_open_empty(false, is_own, NULL);
    take(l, "Out of memory: Killed process 812 (python) anon-rss:4kB");
    take(l, "NVRM: Xid (PCI:0000:02:00): 79, pid=812, " BUS);
    CHECK(dt_kernel_log_kill(l, 812) == NULL);
    CHECK_EQ(dt_kernel_log_xid(l, 812)->pid, 0);
    dt_kernel_log_close(l);
}

TEST(a_log_that_is_flooded_keeps_its_first_records)
{
    struct dt_kernel_log *l = dt_kernel_log_open_empty(true, is_own, NULL);
    take(l, "NVRM: Xid (PCI:0000:02:00): 79, pid=812, " BUS);
    for (int i = 0; i < 1000; i++)
        take(l, "NVRM: Xid (PCI:0000:03:00): 31, pid=7, a fault");
    CHECK_EQ(dt_kernel_log_xid(l, 812)->event, DT_KERNEL_GPU_BROKEN);
    dt_kernel_log_close(l);
}

/* Another job's processes, each once: those that came last are kept, and ours. */
TEST(a_flood_about_others_pushes_out_no_record_of_ours_and_keeps_none_of_ours_out)
{
    struct dt_kernel_log *l = dt_kernel_log_open_empty(true, is_own, NULL);
    char words[100];
    take(l, "NVRM: Xid (PCI:0000:02:00): 79, pid=812, " BUS);
    take(l, "NVRM: Xid (PCI:0000:04:00): 31, pid='<unknown>', a fault");
    for (int pid = 1000; pid < 2000; pid++) {
        snprintf(words, sizeof words, "Out of memory: Killed process %d (other) anon-rss:4kB", pid);
        take(l, words);
    }
    take(l, "Out of memory: Killed process 812 (python) anon-rss:8kB");
    CHECK_EQ(dt_kernel_log_xid(l, 812)->event, DT_KERNEL_GPU_BROKEN);
    CHECK_EQ(dt_kernel_log_xid(l, 7)->event, DT_KERNEL_GPU_FAULT);
    CHECK(dt_kernel_log_kill(l, 812) != NULL);
    CHECK(dt_kernel_log_kill(l, 1999) != NULL);
    CHECK(dt_kernel_log_kill(l, 1000) == NULL);
    dt_kernel_log_close(l);
}

TEST(a_log_that_may_not_be_read_says_nothing)
{
    dt_kernel_log_update(NULL);
    CHECK(dt_kernel_log_kill(NULL, 1) == NULL);
    CHECK(dt_kernel_log_xid(NULL, 1) == NULL);
    dt_kernel_log_close(NULL);
}

/* Whatever it has said before, and while this runs. */
TEST(the_real_log_is_read_to_its_end_where_it_may_be_read)
{
    struct dt_kernel_log *l = dt_kernel_log_open(is_own, NULL);
    dt_kernel_log_update(l);
    dt_kernel_log_update(l);
    CHECK(dt_kernel_log_kill(l, getpid()) == NULL);
    dt_kernel_log_close(l);
}
