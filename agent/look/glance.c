/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/look/glance.h"

#include <stdlib.h>

/* To look for a Python costs as much as a look: where there is none it is done ever more seldom. */
#define PATIENCE_MAX 30

static pid_t inner_of(pid_t pid)
{
    struct dt_look_process p;
    pid_t inner = pid;
    if (dt_look_process_read(&p, pid, NULL) == 0)
        for (size_t i = 0; i < p.len; i++)
            if (p.tasks[i].tid == pid)
                inner = p.tasks[i].inner;
    dt_look_process_finish(&p);
    return inner;
}

static bool is_python(struct dt_glance *g, pid_t pid)
{
    struct dt_look_image images[DT_LOOK_IMAGES_MAX];
    struct dt_look_task main;
    struct dt_memory m = dt_memory_of(&pid);
    int count = dt_look_images(pid, images);
    if (count <= 0 || dt_look_find_python(&m, images, count, &g->python, NULL) < 0 ||
        !g->python.version || !dt_look_process_glance(pid, &main, &g->started))
        return false;
    g->pid = pid;
    g->main = (struct dt_python_wanted){.native_id = (uint64_t)inner_of(pid)};
    return true;
}

/* Sums up the processes that are no Python, until one is. */
static void search(struct dt_glance *g, struct dt_glance_seen *seen)
{
    size_t count;
    bool more, look_closer = g->wait-- <= 0;
    pid_t *pids = dt_look_descendants(g->root, &count, &more, NULL);
    for (size_t i = 0; pids && i < count && !g->pid; i++) {
        struct dt_look_task main;
        uint64_t started;
        if (look_closer && is_python(g, pids[i]))
            break;
        if (!dt_look_process_glance(pids[i], &main, &started))
            continue;
        if (pids[i] == g->root)
            seen->state = main.state;
        seen->lives = seen->lives || pids[i] == g->root;
        seen->cpu_ms += main.cpu_ms;
        seen->faults += main.faults;
    }
    free(pids);
    if (look_closer) {
        g->patience = g->patience < PATIENCE_MAX / 2 ? 2 * g->patience + 1 : PATIENCE_MAX;
        g->wait = g->patience;
    }
}

static bool read_main(struct dt_glance *g, struct dt_glance_seen *seen)
{
    struct dt_memory m = dt_memory_of(&g->pid);
    struct dt_look_task main;
    uint64_t started;
    if (!dt_look_process_glance(g->pid, &main, &started) || started != g->started)
        return false;
    dt_memory_read_ahead(&m);
    int rc = dt_python_stacks_read_one(&seen->stacks, &m, &g->python.layout, g->python.runtime,
                                       &g->main, NULL);
    dt_memory_finish(&m);
    if (rc < 0)
        return false;
    seen->lives = true;
    seen->state = main.state;
    seen->cpu_ms = main.cpu_ms;
    seen->faults = main.faults;
    seen->sleeps = main.sleeps;
    seen->main = seen->stacks.len > 0 ? seen->stacks.at : NULL;
    return true;
}

void dt_glance_take(struct dt_glance *g, struct dt_glance_seen *seen)
{
    *seen = (struct dt_glance_seen){0};
    if (g->pid && read_main(g, seen))
        return;
    dt_glance_finish(seen);
    if (g->pid) /* it has ended, or is another program now */
        *g = (struct dt_glance){.root = g->root};
    search(g, seen);
    if (g->pid && !read_main(g, seen))
        g->pid = 0;
}

void dt_glance_finish(struct dt_glance_seen *seen)
{
    dt_python_stacks_finish(&seen->stacks);
    *seen = (struct dt_glance_seen){0};
}
