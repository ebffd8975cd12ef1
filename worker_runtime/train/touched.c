/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_runtime/train/touched.h"

#include "base/fs.h"

#include <stdlib.h>
#include <string.h>

#define TEXT_MOST ((size_t)64 << 10)

/* KEY's value in TEXT, lines as /proc writes sizes; -1: it has no such line. */
static int64_t value_of(const char *text, const char *key)
{
    const char *line = strstr(text, key);
    return line ? strtoll(line + strlen(key), NULL, 10) * 1024 : -1;
}

/* false: PATH does not tell. */
static bool read_sizes(const char *path, const char *own_key, const char *shared_key, int64_t *own,
                       int64_t *shared)
{
    struct dt_buf text = {0};
    *own = *shared = -1;
    if (dt_fs_read(path, TEXT_MOST, &text, NULL) == 0) {
        *own = value_of(dt_buf_cstr(&text), own_key);
        *shared = value_of(dt_buf_cstr(&text), shared_key);
    }
    dt_buf_finish(&text);
    return *own >= 0 && *shared >= 0;
}

int64_t dt_touched_bytes(int64_t apart, int local)
{
    int64_t own, shared;
    if (read_sizes("/proc/self/smaps_rollup", "\nPss_Anon:", "\nPss_Shmem:", &own, &shared))
        local = 1;
    else if (!read_sizes("/proc/self/status", "\nRssAnon:", "\nRssShmem:", &own, &shared))
        return 0;
    return own + (shared > apart ? shared - apart : 0) / local;
}
