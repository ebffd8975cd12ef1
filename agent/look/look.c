/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/look/look.h"

#include "agent/look/elf_image.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* PY_VERSION_HEX from 3.11 on, where CPython tells it. */
#define VERSION_TELLS_ITSELF 0x030b0000

/* PY_VERSION_HEX of a CPython older than 3.11, which does not tell, by the name of its file:
 * "python3.9", "libpython3.9.so.1.0". 3.0 where that does not tell either. */
static uint32_t version_by_name(const char *name)
{
    const char *at = strstr(name, "python3.");
    unsigned minor = at ? (unsigned)atoi(at + strlen("python3.")) : 0;
    return 0x03000000 | (minor & 255) << 16;
}

/* Finds _PyRuntime. */
static bool find_runtime(struct dt_memory *m, const struct dt_look_image *images, int count,
                         uint64_t *runtime, uint32_t *hex)
{
    for (int i = 0; i < count; i++) {
        struct dt_elf_image elf;
        uint64_t version;
        if (dt_elf_image_open(&elf, m, images[i].base) < 0 ||
            dt_elf_image_find(&elf, m, "_PyRuntime", runtime) < 0)
            continue;
        if (dt_elf_image_find(&elf, m, "Py_Version", &version) < 0 ||
            dt_memory_read(m, version, hex, sizeof *hex) < 0)
            *hex = version_by_name(images[i].name);
        return true;
    }
    return false;
}

int dt_look_find_python(struct dt_memory *m, const struct dt_look_image *images, int count,
                        struct dt_look_python *python, struct dt_err *err)
{
    *python = (struct dt_look_python){0};
    if (!find_runtime(m, images, count, &python->runtime, &python->version)) {
        if (m->error != EPERM && m->error != ESRCH)
            return 0;
        return dt_err_errno(err, DT_E_RUNTIME, m->error, "its memory");
    }
    return dt_python_layout_read(&python->layout, m, python->version, python->runtime, err);
}

int dt_look_read_python(struct dt_memory *m, const struct dt_look_image *images, int count,
                        uint32_t *version, struct dt_python_stacks *stacks, struct dt_err *err)
{
    struct dt_look_python python;
    int rc = dt_look_find_python(m, images, count, &python, err);
    *version = python.version;
    if (rc < 0 || !python.version)
        return rc;
    return dt_python_stacks_read(stacks, m, &python.layout, python.runtime, err);
}

/* What to do where the kernel lets us read no memory. */
static void explain_refusal(struct dt_look *look)
{
    char scope = '0';
    FILE *f = fopen("/proc/sys/kernel/yama/ptrace_scope", "re");
    if (f) {
        scope = (char)fgetc(f);
        fclose(f);
    }
    if (scope > '0')
        snprintf(look->refused, sizeof look->refused,
                 "kernel.yama.ptrace_scope is %c; look as root, or set it to 0", scope);
    else
        snprintf(look->refused, sizeof look->refused,
                 "look as its user or as root, and in a container with CAP_SYS_PTRACE if need be");
}

/* Before 3.11 the numbers of threads come from the C library's memory. If it is another library
 * than we know, they are none of the process's threads, and so no numbers. */
static void drop_wrong_ids(struct dt_look_entry *e)
{
    for (size_t i = 0; i < e->stacks.len && e->python < VERSION_TELLS_ITSELF; i++) {
        bool is_task = false;
        for (size_t k = 0; k < e->process.len; k++)
            is_task = is_task || e->stacks.at[i].native_id == (uint64_t)e->process.tasks[k].inner;
        if (!is_task)
            e->stacks.at[i].native_id = 0;
    }
}

static void read_stacks(struct dt_look *look, struct dt_look_entry *e)
{
    struct dt_look_image images[DT_LOOK_IMAGES_MAX];
    struct dt_memory m = dt_memory_of(&e->process.pid);
    struct dt_err err = {0};
    dt_memory_read_ahead(&m);
    int count = dt_look_images(e->process.pid, images), why = count < 0 ? -count : 0;
    if (count < 0)
        dt_err_errno(&err, DT_E_RUNTIME, why, "its memory");
    else if (dt_look_read_python(&m, images, count, &e->python, &e->stacks, &err) < 0)
        why = m.error;
    dt_memory_finish(&m);
    if (!dt_look_process_lives(&e->process)) {
        dt_python_stacks_finish(&e->stacks);
        snprintf(e->unreadable, sizeof e->unreadable, "it has ended");
    } else if (why == EACCES || why == EPERM) {
        explain_refusal(look);
        snprintf(e->unreadable, sizeof e->unreadable, "the kernel refuses it");
    } else {
        snprintf(e->unreadable, sizeof e->unreadable, "%s", err.text);
        drop_wrong_ids(e);
    }
}

/* The sockets for which processes from FIRST on wait, in its network. */
static size_t sockets_like(const struct dt_look *look, size_t first,
                           struct dt_waiting *sockets[DT_WAITING_SOCKETS_MAX])
{
    size_t count = 0;
    for (size_t i = first; i < look->len; i++) {
        const struct dt_look_process *p = &look->at[i].process;
        for (size_t k = 0; k < p->len && p->network == look->at[first].process.network; k++)
            if (p->tasks[k].waiting.kind == DT_WAITING_SOCKET && count < DT_WAITING_SOCKETS_MAX)
                sockets[count++] = &p->tasks[k].waiting;
    }
    return count;
}

/* The tables of a network are long where it is busy, and all processes of a job share one. */
static void name_sockets(struct dt_look *look)
{
    struct dt_waiting *sockets[DT_WAITING_SOCKETS_MAX];
    for (size_t i = 0; i < look->len; i++) {
        const struct dt_look_process *p = &look->at[i].process;
        bool done = p->network == 0;
        for (size_t k = 0; k < i && !done; k++)
            done = look->at[k].process.network == p->network;
        if (!done)
            dt_waiting_name_sockets(sockets, sockets_like(look, i, sockets), p->pid);
    }
}

static void read_memory(struct dt_look *look, pid_t pid)
{
    struct dt_cgroup group;
    dt_cgroup_find_of(&group, pid, "memory", "");
    struct dt_oom_counts counts = dt_cgroup_oom_counts(&group);
    look->memory = dt_cgroup_memory(&group);
    look->killed = counts.own >= 0 ? counts.own : counts.below;
}

int dt_look_at(struct dt_look *look, pid_t pid, struct dt_err *err)
{
    dt_ms end = dt_clock_monotonic() + DT_LOOK_TIME_MAX;
    size_t count;
    *look = (struct dt_look){0};
    pid_t *pids = dt_look_descendants(pid, &count, &look->more, err);
    if (!pids)
        return -1;
    look->at = calloc(count, sizeof *look->at);
    if (!look->at) {
        free(pids);
        return dt_err_set(err, DT_E_MEMORY, "no memory for a look at %zu processes", count);
    }
    read_memory(look, pid);
    for (; look->len < count && dt_clock_monotonic() < end; look->len++) {
        struct dt_look_entry *e = &look->at[look->len];
        struct dt_err why = {0};
        if (dt_look_process_read(&e->process, pids[look->len], &why) < 0)
            snprintf(e->unreadable, sizeof e->unreadable, "%s", why.text);
        else
            read_stacks(look, e);
    }
    look->more = look->more || look->len < count;
    name_sockets(look);
    free(pids);
    return 0;
}

void dt_look_finish(struct dt_look *look)
{
    for (size_t i = 0; i < look->len; i++) {
        dt_look_process_finish(&look->at[i].process);
        dt_python_stacks_finish(&look->at[i].stacks);
    }
    free(look->at);
    *look = (struct dt_look){0};
}

const struct dt_python_thread *dt_look_stack_of(const struct dt_look_entry *e,
                                                const struct dt_look_task *t)
{
    for (size_t i = 0; i < e->stacks.len; i++)
        if (e->stacks.at[i].native_id == (uint64_t)t->inner)
            return &e->stacks.at[i];
    return NULL;
}
