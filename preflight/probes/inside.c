/* SPDX-License-Identifier: Apache-2.0 */
#include "preflight/probes/inside.h"

#include "base/auto.h"
#include "base/str.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

bool dt_probe_read(const char *root, const char *path, char *out, size_t size)
{
    char full[PATH_MAX];
    snprintf(full, sizeof full, "%s%s", root, path);
    DT_AUTO_FD fd = open(full, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    ssize_t n = fd < 0 ? -1 : read(fd, out, size - 1);
    out[n > 0 ? n : 0] = '\0';
    char *text = dt_str_trim(out);
    memmove(out, text, strlen(text) + 1);
    return n >= 0;
}

int64_t dt_probe_read_number(const char *root, const char *path, int64_t fallback)
{
    char text[32];
    int64_t n;
    if (!dt_probe_read(root, path, text, sizeof text) ||
        dt_str_to_int(text, INT64_MIN, INT64_MAX, &n, NULL) < 0)
        return fallback;
    return n;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(a, b);
}

size_t dt_probe_list(const char *root, const char *path, char names[][DT_PROBE_NAME], size_t max)
{
    char full[PATH_MAX];
    size_t n = 0;
    struct dirent *e;
    snprintf(full, sizeof full, "%s%s", root, path);
    DIR *d = opendir(full);
    while (d && n < max && (e = readdir(d)))
        if (e->d_name[0] != '.' && strlen(e->d_name) < DT_PROBE_NAME)
            memcpy(names[n++], e->d_name, strlen(e->d_name) + 1);
    if (d)
        closedir(d);
    qsort(names, n, sizeof *names, by_name);
    return n;
}

pid_t dt_probe_start(const char *const *argv, int *output)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return -1;
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* the probe may be killed for taking too long */
        int null = open("/dev/null", O_RDWR);
        dup2(null, STDIN_FILENO);
        dup2(ends[1], STDOUT_FILENO);
        dup2(null, STDERR_FILENO);
        execv(argv[0], (char *const *)argv);
        dprintf(STDOUT_FILENO, "!%d", errno);
        _exit(127);
    }
    close(ends[1]);
    if (pid > 0)
        *output = ends[0];
    else
        close(ends[0]);
    return pid;
}

void dt_probe_chosen(char *text)
{
    char *open = strchr(text, '['), *close = open ? strchr(open, ']') : NULL;
    if (!close)
        return;
    *close = '\0';
    memmove(text, open + 1, strlen(open + 1) + 1);
}
