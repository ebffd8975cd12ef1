/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/watch/progress.h"

#include "base/auto.h"
#include "base/list.h"
#include "base/str.h"
#include "rendezvous/protocol/spec.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct dt_progress {
    uv_loop_t *loop;
    uv_work_t work;
    char *path;
    bool busy, closing;
    int64_t found; /* the thread's, while busy */
    int64_t step;
};

static int64_t read_number(const char *path)
{
    char text[64];
    struct stat st;
    int64_t n;
    DT_AUTO_FD fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
        return -1;
    ssize_t len = read(fd, text, sizeof text - 1);
    if (len <= 0)
        return -1;
    text[len] = '\0';
    return dt_str_to_int(dt_str_trim(text), 0, DT_STEPS_MOST, &n, NULL) == 0 ? n : -1;
}

static void read_along(uv_work_t *w)
{
    struct dt_progress *p = dt_container_of(w, struct dt_progress, work);
    p->found = read_number(p->path);
}

static void destroy(struct dt_progress *p)
{
    free(p->path);
    free(p);
}

static void on_read(uv_work_t *w, int status)
{
    struct dt_progress *p = dt_container_of(w, struct dt_progress, work);
    p->busy = false;
    if (p->closing)
        destroy(p);
    else if (status == 0 && p->found >= 0)
        p->step = p->found;
}

struct dt_progress *dt_progress_open(uv_loop_t *loop, const char *path, struct dt_err *err)
{
    struct dt_progress *p = calloc(1, sizeof *p);
    char *copy = strdup(path);
    if (!p || !copy) {
        free(p);
        free(copy);
        dt_err_set(err, DT_E_MEMORY, "no memory for the progress file");
        return NULL;
    }
    *p = (struct dt_progress){.loop = loop, .path = copy, .step = -1};
    return p;
}

void dt_progress_look(struct dt_progress *p)
{
    if (!p->busy && !p->closing)
        p->busy = uv_queue_work(p->loop, &p->work, read_along, on_read) == 0;
}

int64_t dt_progress_step(const struct dt_progress *p)
{
    return p->step;
}

void dt_progress_close(struct dt_progress *p)
{
    if (!p)
        return;
    p->closing = true;
    if (!p->busy)
        destroy(p);
    else
        uv_cancel((uv_req_t *)&p->work); /* which may be too late; on_read() comes in any case */
}
