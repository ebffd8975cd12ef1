/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_runtime/telemetry/page_map.h"

#include "base/str.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>

struct dt_page *dt_page_map(void)
{
    const char *number = getenv(DT_PAGE_ENV);
    int64_t fd;
    struct stat st;
    if (!number || dt_str_to_int(number, 0, INT32_MAX, &fd, NULL) < 0)
        return NULL;
    if (fstat((int)fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size != DT_PAGE_SIZE)
        return NULL;
    void *at = mmap(NULL, DT_PAGE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, (int)fd, 0);
    if (at == MAP_FAILED)
        return NULL;
    if (dt_page_is_valid(at))
        return at;
    munmap(at, DT_PAGE_SIZE);
    return NULL;
}
