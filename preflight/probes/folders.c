/* SPDX-License-Identifier: Apache-2.0 */
#include "preflight/probes/folders.h"

#include "base/auto.h"
#include "base/str.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define ROOM_FOR_LOGS ((uint64_t)256 << 20)
#define ROOM_FOR_CHECKPOINTS ((uint64_t)8 << 30)
#define FILES_ENOUGH 1000
#define SAMPLE ((size_t)16 << 20)
#define SLOW 50e6 /* bytes a second: a checkpoint of 100 GB takes half an hour then */

void dt_folders_judge(const struct dt_folder *f, uint64_t room, struct dt_sheet *sheet)
{
    char left[32], size[32], wanted[32], speed[64] = "";
    size_t before = sheet->remark_count;
    double rate = f->written && f->took_ns > 0 ? (double)f->written * 1e9 / (double)f->took_ns : 0;
    dt_str_from_size(f->free, left, sizeof left);
    dt_str_from_size(f->size, size, sizeof size);
    if (!f->there) {
        dt_sheet_remark(sheet, "folders", DT_GRADE_FAIL, "make it, or mount what belongs there",
                        "there is no folder %.160s", f->path);
        return;
    }
    if (f->refused) {
        dt_sheet_remark(sheet, "folders", DT_GRADE_FAIL,
                        "look at its owner, mode and mount options",
                        "nothing can be written to %.160s: %s", f->path, strerror(f->refused));
        return;
    }
    if (f->free < room)
        dt_sheet_remark(sheet, "folders", DT_GRADE_WARN, "make room, or choose another folder",
                        "%.160s has only %s of %s left; %s would be enough to begin with", f->path,
                        left, size, dt_str_from_size(room, wanted, sizeof wanted));
    if (f->files_left < FILES_ENOUGH)
        dt_sheet_remark(sheet, "folders", DT_GRADE_WARN, "remove files that nobody needs",
                        "%.160s has room for %" PRIu64 " more files", f->path, f->files_left);
    if (rate > 0 && rate < SLOW)
        dt_sheet_remark(sheet, "folders", DT_GRADE_WARN, "save checkpoints elsewhere, or rarely",
                        "%.160s takes %.1f MB/s", f->path, rate / 1e6);
    if (rate > 0)
        snprintf(speed, sizeof speed, ", takes %.0f MB/s", rate / 1e6);
    if (sheet->remark_count == before)
        dt_sheet_remark(sheet, "folders", DT_GRADE_OK, NULL, "%.160s has %s of %s left%s", f->path,
                        left, size, speed);
}

/* How long SAMPLE bytes take until they are on the disk; less than all where an error comes. */
static void measure(int fd, struct dt_folder *f)
{
    size_t piece = (size_t)1 << 20;
    DT_AUTO_FREE char *bytes = calloc(1, piece);
    int64_t began = dt_clock_monotonic_ns();
    if (!bytes)
        return;
    while (f->written < SAMPLE && write(fd, bytes, piece) == (ssize_t)piece)
        f->written += piece;
    if (fsync(fd) < 0)
        f->refused = errno;
    f->took_ns = dt_clock_monotonic_ns() - began;
}

/* ROOM for checkpoints is for what is written fast. */
static void try_writing(struct dt_folder *f, uint64_t room)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/.dtrun-doctor.XXXXXX", f->path);
    DT_AUTO_FD fd = mkostemp(path, O_CLOEXEC);
    if (fd < 0) {
        f->refused = errno;
        return;
    }
    unlink(path); /* nothing stays, whatever becomes of us */
    if (room == ROOM_FOR_CHECKPOINTS && f->free > 4 * SAMPLE)
        measure(fd, f);
}

static void look_at(const char *path, uint64_t room, const struct dt_checkup *c,
                    struct dt_sheet *sheet)
{
    struct statvfs fs;
    struct dt_folder f = {.path = path};
    snprintf(sheet->doing, sizeof sheet->doing, "%.150s", path);
    f.there = statvfs(path, &fs) == 0;
    if (f.there) {
        f.free = (uint64_t)fs.f_bavail * fs.f_frsize;
        f.size = (uint64_t)fs.f_blocks * fs.f_frsize;
        f.files_left = fs.f_files ? fs.f_favail : UINT64_MAX;
        if (c->thorough)
            try_writing(&f, room);
        else if (access(path, W_OK | X_OK) < 0)
            f.refused = errno;
    }
    dt_folders_judge(&f, room, sheet);
}

/* What is there already of PATH, which the job will make. */
static void cut_to_what_is_there(char *path)
{
    char *slash;
    while (*path && access(path, F_OK) < 0 && (slash = strrchr(path, '/'))) {
        if (slash == path)
            slash++;
        *slash = '\0';
    }
    if (access(path, F_OK) < 0)
        strcpy(path, ".");
}

void dt_folders_probe(const struct dt_checkup *c, struct dt_sheet *sheet)
{
    char logs[PATH_MAX];
    const char *temporary = getenv("TMPDIR");
    snprintf(logs, sizeof logs, "%s", c->log_dir ? c->log_dir : temporary ? temporary : "/tmp");
    snprintf(sheet->doing, sizeof sheet->doing, "%.150s", logs);
    cut_to_what_is_there(logs);
    look_at(logs, ROOM_FOR_LOGS, c, sheet);
    for (char *const *folder = c->folders; folder && *folder; folder++)
        look_at(*folder, ROOM_FOR_CHECKPOINTS, c, sheet);
}
