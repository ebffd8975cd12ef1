/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/process/oom.h"

#include "base/str.h"

#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>

static bool rose(int64_t before, int64_t now)
{
    return before >= 0 && now > before;
}

enum dt_oom_kind dt_oom_judge(const struct dt_oom_counts *before, const struct dt_oom_counts *now,
                              int status, bool ours)
{
    bool here = rose(before->own, now->own) || rose(before->below, now->below);
    if (ours)
        return DT_OOM_NO;
    if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)
        return here ? DT_OOM_BESIDE : DT_OOM_NO;
    if (rose(before->own, now->own))
        return DT_OOM_KILLED;
    /* Every kill is counted in the group of who is killed, so the host's count is that of others
     * where there is a count of our own. */
    bool blind = before->own < 0 && before->below < 0;
    return here || (blind && rose(before->host, now->host)) ? DT_OOM_LIKELY : DT_OOM_NO;
}

const char *dt_oom_text(const struct dt_oom *oom, char out[DT_OOM_TEXT])
{
    static const char *const words[] = {
        [DT_OOM_NO] = "",
        [DT_OOM_KILLED] = "killed by the kernel: out of memory",
        [DT_OOM_LIKELY] = "most likely killed by the kernel, which was out of memory meanwhile",
        [DT_OOM_BESIDE] = "the kernel killed another process of this job: out of memory",
    };
    char limit[48] = "all of the host's", size[32];
    if (oom->limit >= 0)
        snprintf(limit, sizeof limit, "limit %s",
                 dt_str_from_size((uint64_t)oom->limit, size, sizeof size));
    if (oom->kind == DT_OOM_NO)
        out[0] = '\0';
    else
        snprintf(out, DT_OOM_TEXT, "%s (%s)", words[oom->kind], limit);
    return out;
}

void dt_oom_begin(struct dt_oom_watch *w)
{
    dt_cgroup_find(&w->group, "memory", "");
    w->before = dt_cgroup_oom_counts(&w->group);
}

/* A kill is counted before the signal is sent, so who is dead has been counted. */
struct dt_oom dt_oom_look(struct dt_oom_watch *w, int status, bool ours)
{
    struct dt_oom_counts now = dt_cgroup_oom_counts(&w->group);
    struct dt_oom oom = {.kind = dt_oom_judge(&w->before, &now, status, ours), .limit = -1};
    if (oom.kind == DT_OOM_NO)
        return oom;
    oom.limit = dt_cgroup_memory_limit(&w->group);
    w->before.own += rose(w->before.own, now.own);
    w->before.below += rose(w->before.below, now.below);
    w->before.host += rose(w->before.host, now.host);
    return oom;
}
