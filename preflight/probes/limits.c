/* SPDX-License-Identifier: Apache-2.0 */
#include "preflight/probes/limits.h"

#include "base/cgroup.h"
#include "base/str.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define FILES_ENOUGH 4096
#define TASKS_PER_WORKER 256 /* threads count: of a BLAS, of a data loader, of NCCL */

int64_t dt_limits_find(const char *text, const char *name, bool hard)
{
    const char *line = strstr(text, name);
    if (!line)
        return DT_LIMIT_UNKNOWN;
    const char *value = line + strlen(name);
    value += strspn(value, " ");
    if (hard) {
        value += strcspn(value, " \n");
        value += strspn(value, " ");
    }
    if (strncmp(value, "unlimited", 9) == 0)
        return DT_LIMIT_NONE;
    char *end;
    long long n = strtoll(value, &end, 10);
    return end == value || n < 0 ? DT_LIMIT_UNKNOWN : n;
}

static void judge_files(const struct dt_limits *l, struct dt_sheet *sheet)
{
    if (l->files == DT_LIMIT_UNKNOWN || l->files >= FILES_ENOUGH)
        return;
    dt_sheet_remark(sheet, "limits", DT_GRADE_WARN,
                    l->files_hard >= FILES_ENOUGH ? "ulimit -n 65536"
                                                  : "raise nofile in /etc/security/limits.conf, or "
                                                    "LimitNOFILE= of the service",
                    "a process may have %" PRId64 " files open: data loaders and many ranks need "
                    "more",
                    l->files);
}

static void judge_processes(const struct dt_limits *l, int workers, struct dt_sheet *sheet)
{
    int64_t wanted = (int64_t)TASKS_PER_WORKER * (workers > 0 ? workers : 1);
    if (l->processes != DT_LIMIT_UNKNOWN && l->processes < wanted)
        dt_sheet_remark(sheet, "limits", DT_GRADE_WARN, "ulimit -u unlimited",
                        "this user may have %" PRId64 " processes and threads, all together",
                        l->processes);
    if (l->pids_max > 0 && l->pids_max - l->pids_now < wanted)
        dt_sheet_remark(sheet, "limits", DT_GRADE_WARN,
                        "raise pids.max: TasksMax= of the service, --pids-limit of the container",
                        "the control group has room for %" PRId64 " more processes and threads",
                        l->pids_max > l->pids_now ? l->pids_max - l->pids_now : 0);
}

static void judge_locked(const struct dt_limits *l, struct dt_sheet *sheet)
{
    char size[32];
    if (!l->rdma || l->locked == DT_LIMIT_UNKNOWN || l->locked == DT_LIMIT_NONE)
        return;
    dt_sheet_remark(sheet, "limits", DT_GRADE_WARN,
                    "ulimit -l unlimited; LimitMEMLOCK=infinity, or --ulimit memlock=-1",
                    "a process may lock %s of memory: InfiniBand needs to register all its "
                    "buffers",
                    dt_str_from_size((uint64_t)l->locked, size, sizeof size));
}

void dt_limits_judge(const struct dt_limits *l, int workers, struct dt_sheet *sheet)
{
    size_t before = sheet->remark_count;
    judge_files(l, sheet);
    judge_processes(l, workers, sheet);
    judge_locked(l, sheet);
    if (sheet->remark_count == before)
        dt_sheet_remark(sheet, "limits", DT_GRADE_OK, NULL,
                        "files, processes and locked memory are enough");
}

void dt_limits_probe(const struct dt_checkup *c, struct dt_sheet *sheet)
{
    char text[4096], device[1][DT_PROBE_NAME];
    struct dt_cgroup group;
    struct dt_cgroup_pids pids;
    dt_probe_read(c->root, "/proc/self/limits", text, sizeof text);
    struct dt_limits l = {
        .files = dt_limits_find(text, "Max open files", false),
        .files_hard = dt_limits_find(text, "Max open files", true),
        .processes = dt_limits_find(text, "Max processes", false),
        .locked = dt_limits_find(text, "Max locked memory", false),
        .pids_max = DT_LIMIT_UNKNOWN,
        .rdma = dt_probe_list(c->root, "/sys/class/infiniband", device, 1) > 0,
    };
    dt_cgroup_find(&group, "pids", c->root);
    if (dt_cgroup_pids_limit(&group, &pids)) {
        l.pids_max = pids.max;
        l.pids_now = pids.current;
    }
    dt_limits_judge(&l, c->workers, sheet);
}
