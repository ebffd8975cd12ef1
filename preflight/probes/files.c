/* SPDX-License-Identifier: Apache-2.0 */
#include "preflight/probes/files.h"

#include "base/auto.h"
#include "base/crc32c.h"
#include "base/str.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PIECE ((size_t)1 << 20) /* of a large file its first and its last one are read */

static uint32_t checksum(const void *bytes, ssize_t n)
{
    return n > 0 ? dt_crc32c(0, (struct dt_bytes){bytes, (size_t)n}) : 0;
}

/* The size and a checksum: what two nodes that see one file must have alike. -1: errno. */
static int describe(const char *path, char *out, size_t size)
{
    struct stat st;
    DT_AUTO_FREE char *bytes = malloc(PIECE);
    DT_AUTO_FD fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (!bytes || fd < 0 || fstat(fd, &st) < 0)
        return -1;
    if (!S_ISREG(st.st_mode)) {
        errno = S_ISDIR(st.st_mode) ? EISDIR : EINVAL;
        return -1;
    }
    ssize_t n = pread(fd, bytes, PIECE, 0);
    uint32_t first = checksum(bytes, n), last = 0;
    if (n >= 0 && st.st_size > (off_t)PIECE) {
        n = pread(fd, bytes, PIECE, st.st_size - (off_t)PIECE);
        last = checksum(bytes, n);
    }
    if (n < 0)
        return -1;
    snprintf(out, size, "%" PRIu64 " bytes, checksum %08" PRIx32 "%08" PRIx32, (uint64_t)st.st_size,
             first, last);
    return 0;
}

static void look_at(const char *path, struct dt_sheet *sheet)
{
    char name[sizeof sheet->traits[0].name], state[64];
    /* Long paths differ at their end. */
    size_t len = strlen(path), most = sizeof name - sizeof DT_FILES_TRAIT;
    snprintf(sheet->doing, sizeof sheet->doing, "%.150s", path);
    snprintf(name, sizeof name, DT_FILES_TRAIT "%s", len > most ? path + len - most : path);
    if (describe(path, state, sizeof state) == 0) {
        dt_sheet_remark(sheet, "files", DT_GRADE_OK, NULL, "%.160s can be read", path);
    } else {
        snprintf(state, sizeof state, "%s", strerror(errno));
        dt_sheet_remark(sheet, "files", DT_GRADE_FAIL, "is what holds it mounted on this host?",
                        "%.160s cannot be read: %s", path, state);
    }
    dt_sheet_set(sheet, name, "%s", state);
}

void dt_files_probe(const struct dt_checkup *c, struct dt_sheet *sheet)
{
    char state[64];
    if (c->script)
        snprintf(sheet->doing, sizeof sheet->doing, "%.150s", c->script);
    if (c->script && describe(c->script, state, sizeof state) == 0)
        dt_sheet_set(sheet, DT_FILES_SCRIPT, "%s", state);
    for (char *const *file = c->files; file && *file; file++)
        look_at(*file, sheet);
}
