/* SPDX-License-Identifier: Apache-2.0 */
#include "preflight/probes/cpus.h"

#include "base/cgroup.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST 1000000 /* no machine has more, so no list of one adds up to more than an int */

int dt_cpus_count(const char *list)
{
    long count = 0;
    while (*list) {
        char *end;
        long first = strtol(list, &end, 10), last = first;
        if (end == list)
            break;
        if (*end == '-') {
            const char *second = end + 1;
            last = strtol(second, &end, 10);
            first = end == second ? -1 : first;
        }
        if (first < 0 || last < first || last >= MOST || count >= MOST)
            return 0;
        count += last - first + 1;
        list = *end == ',' ? end + 1 : "";
    }
    return (int)count;
}

void dt_cpus_judge(const struct dt_cpus *p, int workers, struct dt_sheet *sheet)
{
    int usable = p->allowed > 0 ? p->allowed : p->online;
    size_t before = sheet->remark_count;
    if (p->quota > 0 && p->quota < usable)
        dt_sheet_remark(sheet, "cpus", DT_GRADE_WARN,
                        "raise the limit (--cpus, limits.cpu), or set OMP_NUM_THREADS to fit it",
                        "the control group has the time of %.1f processors, but programs see %d "
                        "and start as many threads",
                        p->quota, usable);
    if (usable > 0 && workers > usable)
        dt_sheet_remark(sheet, "cpus", DT_GRADE_WARN,
                        "give the job more processors, or start fewer workers",
                        "%d workers share %d processor%s", workers, usable, usable == 1 ? "" : "s");
    if (sheet->remark_count == before)
        dt_sheet_remark(sheet, "cpus", DT_GRADE_OK, NULL, "%d of %d processors may be used", usable,
                        p->online > usable ? p->online : usable);
    if (usable > 0)
        dt_sheet_set(sheet, "processors", "%d", usable);
}

/* Of "max 100000" or "150000 100000", or of version 1's two files. */
static double quota_in(const char *root, const char *folder, bool v2)
{
    char path[DT_CGROUP_PATH + 32], text[64];
    int64_t quota, period;
    snprintf(path, sizeof path, "%s/%s", folder, v2 ? "cpu.max" : "cpu.cfs_quota_us");
    if (!dt_probe_read(root, path, text, sizeof text))
        return 0;
    if (v2) {
        if (sscanf(text, "%" SCNd64 " %" SCNd64, &quota, &period) != 2)
            return 0;
    } else {
        quota = strtoll(text, NULL, 10);
        snprintf(path, sizeof path, "%s/cpu.cfs_period_us", folder);
        period = dt_probe_read_number(root, path, 0);
    }
    return quota > 0 && period > 0 ? (double)quota / (double)period : 0;
}

/* The least of our group and those that it is in. */
static double read_quota(const char *root)
{
    struct dt_cgroup g;
    double least = 0;
    dt_cgroup_find(&g, "cpu", root);
    while (*g.folder && strlen(g.folder) >= g.top) {
        double q = quota_in(root, g.folder, g.v2);
        if (q > 0 && (least == 0 || q < least))
            least = q;
        char *slash = strrchr(g.folder, '/');
        if (!slash)
            break;
        *slash = '\0';
    }
    return least;
}

void dt_cpus_probe(const struct dt_checkup *c, struct dt_sheet *sheet)
{
    char status[8192], online[1024], *allowed;
    static const char label[] = "Cpus_allowed_list:";
    dt_probe_read(c->root, "/sys/devices/system/cpu/online", online, sizeof online);
    dt_probe_read(c->root, "/proc/self/status", status, sizeof status);
    allowed = strstr(status, label);
    struct dt_cpus p = {
        .online = dt_cpus_count(online),
        .allowed = allowed ? dt_cpus_count(allowed + sizeof label - 1) : 0,
        .quota = read_quota(c->root),
    };
    dt_cpus_judge(&p, c->workers, sheet);
}
