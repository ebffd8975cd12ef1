/* SPDX-License-Identifier: Apache-2.0 */
#include "preflight/probes/xids.h"
#include "tests/preflight/judged.h"

BEFORE_ALL
{
    folder_make();
}

#define BOOT "6,1,100,-;Linux version 6.1.0\n SUBSYSTEM=x\n"
#define FALLEN "4,900,500000,-;NVRM: Xid (PCI:0000:17:00): 79, GPU has fallen off the bus.\n"
#define MISTAKE "4,901,500001,-;NVRM: Xid (PCI:0000:18:00): 31, pid=812, name=python, MMU Fault\n"
#define FORGED "12,902,500002,-;NVRM: Xid (PCI:0000:18:00): 79, says a program\n"

static const struct dt_sheet *look(const char *host, const char *log)
{
    struct dt_sheet *s = fresh_sheet();
    if (log)
        put(host, "/dev/kmsg", log);
    dt_xids_probe(&(struct dt_checkup){.root = at(host)}, s);
    CHECK_EQ(s->remark_count, 1);
    return s;
}

TEST(recorded_logs)
{
    check_said(look("well", BOOT MISTAKE FORGED), "ok: the kernel's log tells of no GPU");
    check_said(look("ill", BOOT FALLEN MISTAKE),
               "warn: a GPU has failed since this host was started: NVRM: Xid (PCI:0000:17:00): "
               "79, GPU has fallen off the bus.");
    check_said(look("twice", FALLEN FALLEN), ", the last of several");
    check_said(look("closed", NULL), "ok: this user may not read the kernel's log");
}
