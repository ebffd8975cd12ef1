/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/process/oom.h"
#include "tests/lib/check.h"

#include <signal.h>

#define EXIT(n) ((n) << 8)

TEST(only_a_kill_that_was_counted_and_is_not_ours_is_the_kernels)
{
    /* clang-format off */
    static const struct {
        const char *story;
        struct dt_oom_counts before, now; /* own, below, host */
        int status;
        bool ours;
        enum dt_oom_kind kind;
    } rows[] = {
        {"version 2",                   {0, 0, 0},    {1, 1, 1},    SIGKILL, false, DT_OOM_KILLED},
        {"not the first",               {3, 4, 9},    {4, 5, 10},   SIGKILL, false, DT_OOM_KILLED},
        {"version 1",                   {0, -1, 0},   {1, -1, 1},   SIGKILL, false, DT_OOM_KILLED},
        {"it moved to a group inside",  {0, 0, 0},    {0, 1, 1},    SIGKILL, false, DT_OOM_LIKELY},
        {"a kernel before 5.2",         {-1, 0, 0},   {-1, 1, 1},   SIGKILL, false, DT_OOM_LIKELY},
        {"nothing but the host's",      {-1, -1, 7},  {-1, -1, 8},  SIGKILL, false, DT_OOM_LIKELY},
        {"kill -9",                     {3, 3, 3},    {3, 3, 3},    SIGKILL, false, DT_OOM_NO},
        {"kill -9, others were killed", {0, 0, 0},    {0, 0, 1},    SIGKILL, false, DT_OOM_NO},
        {"... of version 1",            {0, -1, 0},   {0, -1, 1},   SIGKILL, false, DT_OOM_NO},
        {"nothing is known",            {-1, -1, -1}, {-1, -1, -1}, SIGKILL, false, DT_OOM_NO},
        {"it cannot be read any more",  {0, 0, 0},    {-1, -1, -1}, SIGKILL, false, DT_OOM_NO},
        {"not readable at first",       {-1, -1, -1}, {1, 1, 1},    SIGKILL, false, DT_OOM_NO},
        {"by our watchdog",             {0, 0, 0},    {1, 1, 1},    SIGKILL, true,  DT_OOM_NO},
        {"its data loader",             {0, 0, 0},    {1, 1, 1},    EXIT(1), false, DT_OOM_BESIDE},
        {"its data loader, then abort", {0, -1, 0},   {1, -1, 1},   SIGABRT, false, DT_OOM_BESIDE},
        {"somebody on the host",        {0, 0, 0},    {0, 0, 1},    EXIT(1), false, DT_OOM_NO},
        {"an unknown host",             {-1, -1, 0},  {-1, -1, 1},  EXIT(1), false, DT_OOM_NO},
        {"an exception",                {0, 0, 0},    {0, 0, 0},    EXIT(1), false, DT_OOM_NO},
    };
    /* clang-format on */
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("%s", rows[i].story);
        CHECK_EQ(dt_oom_judge(&rows[i].before, &rows[i].now, rows[i].status, rows[i].ours),
                 rows[i].kind);
    }
}

TEST(it_is_told_with_the_limit)
{
    static const struct {
        struct dt_oom oom;
        const char *text;
    } rows[] = {
        {{DT_OOM_NO, 80 << 20}, ""},
        {{DT_OOM_KILLED, 80 << 20}, "killed by the kernel: out of memory (limit 80 MiB)"},
        {{DT_OOM_KILLED, -1}, "killed by the kernel: out of memory (all of the host's)"},
        {{DT_OOM_LIKELY, 2048},
         "most likely killed by the kernel, which was out of memory meanwhile (limit 2 KiB)"},
        {{DT_OOM_BESIDE, INT64_MAX / 2},
         "the kernel killed another process of this job: out of memory (limit 4194304 TiB)"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[DT_OOM_TEXT];
        CHECK_STR(dt_oom_text(&rows[i].oom, text), rows[i].text);
    }
}
