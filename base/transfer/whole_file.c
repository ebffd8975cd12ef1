/* SPDX-License-Identifier: Apache-2.0 */
#include "base/transfer/whole_file.h"

#include "base/auto.h"
#include "base/chance.h"
#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define TEMP ".dt-"
#define TRIES 100

bool dt_whole_file_is_temp(const char *name)
{
    return strncmp(name, TEMP, strlen(TEMP)) == 0;
}

/* "FOLDER/" of PATH, or "". */
static size_t folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? (size_t)(slash + 1 - path) : 0;
}

/* Not mkstemp(): its files are for their owner alone, and what others may do with a file is for the
 * umask to say, which a process with threads cannot look at. */
int dt_whole_file_begin(struct dt_whole_file *file, const char *path, struct dt_err *err)
{
    size_t folder = folder_of(path);
    uint64_t seed = (uint64_t)dt_clock_monotonic_ns() ^ (uint64_t)getpid() << 32;
    *file = (struct dt_whole_file){.fd = -1};
    if (strlen(path) >= sizeof file->path || folder + sizeof TEMP + 16 > sizeof file->temp)
        return dt_err_set(err, DT_E_USAGE, "the path %.60s... is too long", path);
    strcpy(file->path, path);
    for (int i = 0; i < TRIES && file->fd < 0; i++) {
        memcpy(file->temp, path, folder);
        snprintf(file->temp + folder, sizeof file->temp - folder, TEMP "%016" PRIx64,
                 dt_chance(&seed));
        file->fd = open(file->temp, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (file->fd < 0 && errno != EEXIST)
            break;
    }
    if (file->fd < 0)
        return dt_err_errno(err, DT_E_RUNTIME, errno, "cannot make a file for %.300s", path);
    return 0;
}

/* A name is on disk only when its folder is. */
static int sync_folder(struct dt_whole_file *file)
{
    size_t n = folder_of(file->path);
    memcpy(file->temp, n ? file->path : ".", n ? n : 1);
    file->temp[n ? n : 1] = '\0';
    DT_AUTO_FD fd = open(file->temp, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? -1 : fsync(fd);
}

int dt_whole_file_commit(struct dt_whole_file *file, struct dt_err *err)
{
    if (fsync(file->fd) < 0 || rename(file->temp, file->path) < 0)
        return dt_err_errno(err, DT_E_RUNTIME, errno, "cannot write %.300s", file->path);
    file->is_done = true;
    if (sync_folder(file) < 0)
        return dt_err_errno(err, DT_E_RUNTIME, errno, "cannot write the folder of %.300s",
                            file->path);
    return 0;
}

void dt_whole_file_finish(struct dt_whole_file *file)
{
    if (file->fd < 0)
        return;
    close(file->fd);
    if (!file->is_done)
        unlink(file->temp);
    file->fd = -1;
}
