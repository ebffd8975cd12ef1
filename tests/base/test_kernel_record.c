/* SPDX-License-Identifier: Apache-2.0 */
/* Records of /dev/kmsg as kernels and drivers have written them. */
#include "base/kernel_record.h"
#include "tests/lib/check.h"

static struct dt_kernel_record read_one(const char *record)
{
    struct dt_kernel_record r;
    dt_kernel_record_read(dt_bytes_of(record), &r);
    return r;
}

TEST(a_kill_for_memory_names_the_process_and_what_it_had)
{
    static const struct {
        const char *record;
        pid_t pid;
        bool group;
        int64_t resident;
    } rows[] = {
        {"3,105288,38194385063,-;Memory cgroup out of memory: Killed process 32221 (misbehave) "
         "total-vm:80980kB, anon-rss:78592kB, file-rss:1088kB, shmem-rss:0kB, UID:0 "
         "pgtables:204kB oom_score_adj:0\n",
         32221, true, 79680 * 1024},
        {"3,77,12,-;Out of memory: Killed process 4021 (python) total-vm:270GB, "
         "anon-rss:251658240kB, file-rss:12kB, shmem-rss:1048576kB, UID:1000 pgtables:1kB "
         "oom_score_adj:0\n",
         4021, false, (251658240ll + 12 + 1048576) * 1024},
        {"3,77,12,-;Out of memory: Kill process 812 (python3) score 912 or sacrifice child\n", 812,
         false, -1},
        {"3,1,2,-,caller=T812;Out of memory: Killed process 7 (a;b) x\n SUBSYSTEM=acpi\n", 7, false,
         -1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("%.60s", rows[i].record);
        struct dt_kernel_record r = read_one(rows[i].record);
        CHECK_EQ(r.event, DT_KERNEL_KILLED);
        CHECK_EQ(r.pid, rows[i].pid);
        CHECK_EQ(r.group, rows[i].group);
        CHECK_EQ(r.resident, rows[i].resident);
    }
}

TEST(an_xid_says_by_its_number_whose_fault_it_is)
{
    static const struct {
        const char *words;
        enum dt_kernel_event event;
        pid_t pid;
    } rows[] = {
        {"NVRM: Xid (PCI:0000:17:00): 79, pid=4021, name=python, GPU has fallen off the bus.",
         DT_KERNEL_GPU_BROKEN, 4021},
        {"NVRM: Xid (PCI:0000:05:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the "
         "bus.",
         DT_KERNEL_GPU_BROKEN, 0},
        {"NVRM: Xid (PCI:0000:c1:00): 31, pid=812, name=python, Ch 00000008, intr 00000000. MMU "
         "Fault: ENGINE GRAPHICS GPC1 faulted @ 0x7f_1c000000.",
         DT_KERNEL_GPU_FAULT, 812},
        {"NVRM: Xid (PCI:0000:B7:00 GPU-I:05): 94, pid=7, name=python, Contained: SM (0x1).",
         DT_KERNEL_GPU_BROKEN, 7},
        {"NVRM: Xid (0000:05:00): 43, Ch 00000010", DT_KERNEL_GPU_FAULT, 0},
        {"NVRM: Xid (PCI:0000:17:00): 154, pid=9, name=p, GPU recovery action changed",
         DT_KERNEL_GPU_TOLD, 9},
        {"NVRM: Xid (PCI:0000:17:00): 45, pid=4021, name=python, Ch 00000008", DT_KERNEL_OTHER, 0},
        {"NVRM: Xid (PCI:0000:17:00): 63, pid='<unknown>', Row Remapper", DT_KERNEL_OTHER, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char record[400];
        CHECK_ROW("%.60s", rows[i].words);
        snprintf(record, sizeof record, "4,9,100,-;%s\n SUBSYSTEM=pci\n DEVICE=+pci:0000:17:00.0\n",
                 rows[i].words);
        struct dt_kernel_record r = read_one(record);
        CHECK_EQ(r.event, rows[i].event);
        if (r.event == DT_KERNEL_OTHER)
            continue;
        CHECK_EQ(r.pid, rows[i].pid);
        CHECK_EQ(strncmp(r.text, rows[i].words, 100), 0);
        CHECK(strstr(r.text, "SUBSYSTEM") == NULL);
    }
}

/* Whoever may write to /dev/kmsg writes in another name than the kernel's. */
TEST(what_the_kernel_did_not_write_or_nobody_can_read_says_nothing)
{
    static const char *const records[] = {
        "",
        ";",
        "12,1,2,-;Out of memory: Killed process 812 (python)\n",
        "11,1,2,-;NVRM: Xid (PCI:0000:17:00): 79, pid=1, x\n",
        "3,1,2,-",
        "-3,1,2,-;Out of memory: Killed process 812 (python)\n",
        "99999999999999999999,1,2,-;Out of memory: Killed process 812 (python)\n",
        "3,1,2,-;Out of memory: Killed process (python)\n",
        "3,1,2,-;Out of memory: Killed process 99999999999 (python)\n",
        "3,1,2,-;Out of memory: ",
        "3,1,2,-;NVRM: Xid (PCI:0000:17:00",
        "3,1,2,-;NVRM: Xid (PCI:0000:17:00): pid=3",
        "3,1,2,-;NVRM: Xid (PCI:0000:17:00): 99999999999999999999999, pid=3",
        "3,1,2,-;say: Out of memory: Killed process 812 (python)\n",
        "6,105287,38194385044,-;oom-kill:constraint=CONSTRAINT_MEMCG,task=misbehave,pid=32221\n",
    };
    for (size_t i = 0; i < sizeof records / sizeof *records; i++) {
        CHECK_ROW("%s", records[i]);
        CHECK_EQ(read_one(records[i]).event, DT_KERNEL_OTHER);
    }
}

TEST(no_record_steers_a_terminal_or_is_read_beyond_its_end)
{
    static const char whole[] =
        "3,1,2,-;NVRM: Xid (PCI:0000:17:00): 79, pid=12, name=\x1b[2J\xff, gone";
    for (size_t len = 0; len < sizeof whole; len++) {
        char *copy = malloc(len ? len : 1); /* of just that size, for a sanitizer */
        struct dt_kernel_record r;
        memcpy(copy, whole, len);
        dt_kernel_record_read((struct dt_bytes){(const uint8_t *)copy, len}, &r);
        for (const char *at = r.text; *at; at++)
            CHECK(*at >= ' ' && *at <= '~');
        free(copy);
    }
}
