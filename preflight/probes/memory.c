/* SPDX-License-Identifier: Apache-2.0 */
#include "preflight/probes/memory.h"

#include "base/cgroup.h"
#include "base/str.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GIB ((int64_t)1 << 30)

int64_t dt_memory_find(const char *text, const char *name)
{
    size_t n = strlen(name);
    for (const char *line = text; line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL)
        if (strncmp(line, name, n) == 0 && line[n] == ':') {
            long long kib = strtoll(line + n + 1, NULL, 10);
            return kib >= 0 && kib < INT64_MAX / 1024 ? kib * 1024 : -1;
        }
    return -1;
}

static const char *size_of(int64_t bytes, char out[32])
{
    return dt_str_from_size(bytes > 0 ? (uint64_t)bytes : 0, out, 32);
}

/* The least that there is in all: of the host, or of the group. */
static int64_t most_of(const struct dt_memory_state *m)
{
    bool limited = m->group_limit >= 0 && (m->total < 0 || m->group_limit < m->total);
    return limited ? m->group_limit : m->total;
}

void dt_memory_judge(const struct dt_memory_state *m, struct dt_sheet *sheet)
{
    char left[32], most[32], total[32], swapped[32], of[64] = "";
    size_t before = sheet->remark_count;
    int64_t all = most_of(m), used = m->swap_total - m->swap_free;
    size_of(m->left, left);
    size_of(all, most);
    if (all >= 0 && all < m->total)
        snprintf(of, sizeof of, "; the host has %s", size_of(m->total, total));
    if (m->left >= 0 && (m->left < GIB / 2 || m->left < all / 10))
        dt_sheet_remark(sheet, "memory", DT_GRADE_WARN,
                        "ps aux --sort=-rss shows what has it; a dead job's processes may be left",
                        "only %s of %s of memory are left%s", left, most, of);
    if (m->swap_total > 0 && used > GIB && used > m->swap_total / 4)
        dt_sheet_remark(sheet, "memory", DT_GRADE_WARN,
                        "free memory, then: swapoff -a && swapon -a",
                        "%s of memory are swapped out: programs that need them stand still "
                        "meanwhile",
                        size_of(used, swapped));
    if (sheet->remark_count == before)
        dt_sheet_remark(sheet, "memory", DT_GRADE_OK, NULL, "%s of %s are left%s", left, most, of);
    if (all > 0)
        dt_sheet_set(sheet, "memory", "%" PRId64 " GiB", (all + GIB / 2) / GIB);
}

void dt_memory_probe(const struct dt_checkup *c, struct dt_sheet *sheet)
{
    char text[4096];
    struct dt_cgroup group;
    dt_probe_read(c->root, "/proc/meminfo", text, sizeof text);
    dt_cgroup_find(&group, "memory", c->root);
    struct dt_memory_state m = {
        .total = dt_memory_find(text, "MemTotal"),
        .left = dt_cgroup_memory_left(&group),
        .group_limit = dt_cgroup_memory_limit(&group),
        .swap_total = dt_memory_find(text, "SwapTotal"),
        .swap_free = dt_memory_find(text, "SwapFree"),
    };
    dt_memory_judge(&m, sheet);
}
