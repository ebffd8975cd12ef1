/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/failure/inquiry.h"

#include "agent/failure/core.h"
#include "agent/failure/error_file.h"
#include "agent/output/way.h"
#include "base/fs.h"
#include "base/str.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#define FULL_BYTES (16ul << 10) /* fewer are of no use: file systems keep some to themselves */
#define EARLY (60 * DT_SECOND)  /* to import what it needs takes a program up to half of that */

bool dt_inquiry_said(const struct dt_scene *scene, int local_rank, struct dt_buf *out)
{
    struct dt_error_file file = {0};
    char *path = dt_log_dir_file(scene->logs, local_rank, "error.json");
    bool told = path && dt_error_file_read(path, &file, NULL) == 0 && file.message;
    if (told)
        dt_buf_put_str(out, file.message);
    else
        dt_output_tail(scene->output, local_rank, DT_STDERR, out);
    dt_error_file_finish(&file);
    free(path);
    return told;
}

/* Whoever writes there gets ENOSPC, or does so with the next few lines. Root may use what others
 * may not. */
static bool is_full(const char *folder)
{
    struct statvfs s;
    if (statvfs(folder, &s) < 0)
        return false;
    return (geteuid() == 0 ? s.f_bfree : s.f_bavail) * s.f_frsize < FULL_BYTES;
}

bool dt_inquiry_disk_is_full(const struct dt_scene *scene, int local_rank)
{
    const char *attempt = scene->logs->attempt;
    bool writes = dt_way_of(scene->plan, attempt, local_rank, DT_STDOUT) == DT_WAY_FILE ||
                  dt_way_of(scene->plan, attempt, local_rank, DT_STDERR) == DT_WAY_FILE;
    return writes && is_full(scene->logs->base);
}

/* A setting of the kernel without its newline; "" where it cannot be read. */
static const char *read_setting(const char *path, char *out, size_t size)
{
    struct dt_buf text = {0};
    dt_fs_read(path, size, &text, NULL);
    snprintf(out, size, "%s", dt_buf_cstr(&text));
    dt_buf_finish(&text);
    return dt_str_trim(out);
}

const char *dt_inquiry_core(const struct dt_worker *w, char *out, size_t size)
{
    char pattern[256], one[16], folder[PATH_MAX];
    out[0] = '\0';
    if (!WIFSIGNALED(w->status) || !WCOREDUMP(w->status))
        return out;
    struct dt_core core = {
        .pattern = read_setting("/proc/sys/kernel/core_pattern", pattern, sizeof pattern),
        .uses_pid = read_setting("/proc/sys/kernel/core_uses_pid", one, sizeof one)[0] == '1',
        .pid = w->pid,
        .signum = WTERMSIG(w->status),
        .folder = getcwd(folder, sizeof folder) ? folder : ".",
    };
    return dt_core_where(&core, out, size);
}

void dt_inquiry_cause(const struct dt_scene *scene, int local_rank, const struct dt_worker *w,
                      struct dt_bytes said, bool of_file, struct dt_cause *out)
{
    char core[256];
    bool killed = WIFSIGNALED(w->status);
    dt_kernel_log_update(scene->kernel);
    struct dt_cause_facts facts = {
        .exit_code = killed ? 0 : WEXITSTATUS(w->status),
        .signal = killed ? WTERMSIG(w->status) : 0,
        .ours = w->ours,
        .hung = w->why,
        .oom = &w->oom,
        .kill = dt_kernel_log_kill(scene->kernel, w->pid),
        .xid = dt_kernel_log_xid(scene->kernel, w->pid),
        .full_disk = dt_inquiry_disk_is_full(scene, local_rank) ? scene->logs->base : "",
        .core = dt_inquiry_core(w, core, sizeof core),
        .last_said = said,
        .of_file = of_file,
    };
    dt_cause_find(&facts, out);
}

bool dt_inquiry_is_early(const struct dt_scene *scene, const struct dt_worker *w)
{
    return dt_pages_step(scene->pages) < 0 && (w->exited_ns - w->started_ns) / 1000000 < EARLY;
}
