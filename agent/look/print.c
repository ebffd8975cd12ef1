/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/look/print.h"

#include "agent/look/syscall_name.h"
#include "base/str.h"
#include "base/utf8.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COLUMNS 80
#define PIDS_SHOWN 4 /* of one group, beside the first */

static size_t columns_of(const struct dt_buf *text)
{
    size_t n = 0;
    for (size_t i = 0; i < text->len; i++)
        n += (text->at[i] & 0xc0) != 0x80;
    return n;
}

static const char *file_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash && slash[1] ? slash + 1 : path;
}

static void put_place(struct dt_buf *out, const char *file, int line)
{
    dt_utf8_put_visible(out, file, "");
    if (line > 0)
        dt_buf_printf(out, ":%d", line);
}

/* -- one process -- */

static bool frames_equal(const struct dt_python_frame *a, const struct dt_python_frame *b)
{
    return a->line == b->line && strcmp(a->function, b->function) == 0 &&
           strcmp(a->file, b->file) == 0;
}

/* A frame on its own line, or on two where one is too short. TIMES: how often it comes in a row. */
static void put_frame(struct dt_buf *out, const struct dt_python_frame *f, size_t times)
{
    struct dt_buf function = {0}, place = {0};
    dt_utf8_put_visible(&function, f->function, "");
    put_place(&place, f->file, f->line);
    if (times > 1)
        dt_buf_printf(&place, " (%zu times)", times);
    bool fits = 4 + columns_of(&function) + 2 + columns_of(&place) <= COLUMNS;
    dt_buf_printf(out, "    %s%s%s\n", dt_buf_cstr(&function), fits ? "  " : "\n        ",
                  dt_buf_cstr(&place));
    dt_buf_finish(&function);
    dt_buf_finish(&place);
}

static void put_stack(struct dt_buf *out, const struct dt_python_thread *t)
{
    if (t->unreadable[0])
        dt_buf_printf(out, "    unreadable: %s\n", t->unreadable);
    if (t->changing)
        dt_buf_put_str(out, "    (further calls, which change)\n");
    for (size_t i = 0, times; i < t->depth; i += times) {
        for (times = 1; i + times < t->depth && frames_equal(&t->frames[i], &t->frames[i + times]);)
            times++;
        put_frame(out, &t->frames[i], times);
    }
    if (t->deeper)
        dt_buf_printf(out, "    (more than %d calls; the outer ones are left out)\n",
                      DT_PYTHON_DEPTH_MAX);
}

/* Calls of C code, each with its library. */
static void put_native(struct dt_buf *out, const struct dt_look_task *t)
{
    for (size_t i = 0; i < t->native_depth; i++) {
        const struct dt_native_frame *f = &t->native[i];
        struct dt_buf function = {0}, object = {0};
        dt_utf8_put_visible(&function, f->function[0] ? f->function : "?", "");
        dt_utf8_put_visible(&object, f->object[0] ? f->object : "?", "");
        bool fits = 4 + columns_of(&function) + 4 + columns_of(&object) <= COLUMNS;
        dt_buf_printf(out, "    %s%s(%s)\n", dt_buf_cstr(&function), fits ? "  " : "\n        ",
                      dt_buf_cstr(&object));
        dt_buf_finish(&function);
        dt_buf_finish(&object);
    }
}

static const char *state_word(char state, bool many)
{
    switch (state) {
    case 'R':
        return many ? "run" : "runs";
    case 'S':
        return many ? "sleep" : "sleeps";
    case 'D':
        return many ? "wait (D)" : "waits (D)";
    case 'T':
        return many ? "are stopped" : "is stopped";
    case 't':
        return many ? "are stopped by a debugger" : "is stopped by a debugger";
    case 'Z':
    case 'X':
        return many ? "have ended" : "has ended";
    default:
        return many ? "are idle" : "is idle";
    }
}

/* "sleeps in futex_wait_queue (futex)". A running thread has no such place: what /proc says is old.
 */
static void put_doing(struct dt_buf *out, const struct dt_look_task *t, bool many)
{
    char name[DT_SYSCALL_NAME_MAX];
    dt_buf_put_str(out, state_word(t->state, many));
    if (t->state == 'R')
        return;
    if (t->wchan[0]) {
        dt_buf_put_str(out, " in ");
        dt_utf8_put_visible(out, t->wchan, "");
    }
    if (t->call.number >= 0)
        dt_buf_printf(out, "%s%s%s", t->wchan[0] ? " (" : " in ",
                      dt_syscall_name(t->call.number, name), t->wchan[0] ? ")" : "");
}

static void put_cpu(struct dt_buf *out, uint64_t ms)
{
    dt_buf_printf(out, ", %" PRIu64 ".%02" PRIu64 " s CPU", ms / 1000, ms % 1000 / 10);
}

/* What a thread waits for, on a line of its own. */
static void put_waiting(struct dt_buf *out, const struct dt_waiting *w)
{
    if (w->what[0]) {
        if (w->descriptor >= 0)
            dt_buf_printf(out, "    waits for descriptor %d: ", w->descriptor);
        else
            dt_buf_put_str(out, "    waits for ");
        dt_utf8_put_visible(out, w->what, "");
        if (w->others > 0)
            dt_buf_printf(out, " (and %d more)", w->others);
        dt_buf_put_str(out, "\n");
    } else if (w->kind == DT_WAITING_MEMORY) {
        dt_buf_put_str(out, "    waits in memory that it shares with other processes\n");
    }
}

static void put_python_thread(struct dt_buf *out, const struct dt_look_task *t,
                              const struct dt_python_thread *stack)
{
    dt_buf_printf(out, "  thread %d ", (int)t->tid);
    put_doing(out, t, false);
    put_cpu(out, t->cpu_ms);
    dt_buf_put_str(out, "\n");
    put_waiting(out, &t->waiting);
    put_native(out, t);
    put_stack(out, stack);
}

/* Whether it is not known which of the process's threads T is. What has no stack does not count: it
 * may not have begun. */
static bool is_unplaced(const struct dt_python_thread *t)
{
    return t->native_id == 0 && (t->depth > 0 || t->unreadable[0]);
}

static bool native_equal(const struct dt_look_task *a, const struct dt_look_task *b)
{
    if (a->native_depth != b->native_depth)
        return false;
    for (size_t i = 0; i < a->native_depth; i++)
        if (strcmp(a->native[i].function, b->native[i].function) != 0 ||
            strcmp(a->native[i].object, b->native[i].object) != 0)
            return false;
    return true;
}

static bool tasks_alike(const struct dt_look_task *a, const struct dt_look_task *b)
{
    return a->state == b->state && a->call.number == b->call.number &&
           strcmp(a->wchan, b->wchan) == 0 && native_equal(a, b);
}

/* Threads that run no Python; those that wait at the same place are shown together. */
static void put_other_threads(struct dt_buf *out, const struct dt_look_entry *e)
{
    const struct dt_look_process *p = &e->process;
    bool shown[DT_LOOK_TASKS_MAX] = {false}, unplaced = false;
    for (size_t i = 0; i < e->stacks.len; i++)
        unplaced = unplaced || is_unplaced(&e->stacks.at[i]);
    for (size_t i = 0; i < p->len; i++) {
        const struct dt_look_task *t = &p->tasks[i];
        uint64_t cpu_ms = 0;
        size_t count = 0;
        if (shown[i] || dt_look_stack_of(e, t))
            continue;
        for (size_t k = i; k < p->len; k++) {
            if (!tasks_alike(t, &p->tasks[k]) || dt_look_stack_of(e, &p->tasks[k]))
                continue;
            shown[k] = true;
            count++;
            cpu_ms += p->tasks[k].cpu_ms;
        }
        if (count > 1)
            dt_buf_printf(out, "  %zu threads ", count);
        else
            dt_buf_printf(out, "  thread %d ", (int)t->tid);
        if (e->python && !e->unreadable[0] && !e->stacks.more && !unplaced)
            dt_buf_put_str(out, count > 1 ? "without Python " : "(no Python) ");
        put_doing(out, t, count > 1);
        put_cpu(out, cpu_ms);
        dt_buf_put_str(out, "\n");
        if (count == 1)
            put_waiting(out, &t->waiting);
        put_native(out, t);
    }
}

/* -- processes that are alike -- */

/* Two processes are shown together if their keys are equal. */
static void put_key(struct dt_buf *key, const struct dt_look_entry *e)
{
    bool python = false;
    dt_buf_put_text(key, e->process.name);
    dt_buf_put_text(key, e->unreadable);
    for (size_t i = 0; i < e->process.len; i++) {
        const struct dt_python_thread *t = dt_look_stack_of(e, &e->process.tasks[i]);
        if (!t)
            continue;
        python = true;
        put_stack(key, t);
        dt_buf_put_u8(key, 0);
    }
    for (size_t i = 0; i < e->stacks.len; i++) {
        if (!is_unplaced(&e->stacks.at[i]))
            continue;
        python = true;
        put_stack(key, &e->stacks.at[i]);
        dt_buf_put_u8(key, 0);
    }
    if (!python && e->process.len > 0)
        put_doing(key, &e->process.tasks[0], false);
}

/* The stack that stands for the process: the main thread's, or the first there is. Of those whose
 * thread is not known, CPython has the oldest last. */
static const struct dt_python_thread *main_stack(const struct dt_look_entry *e)
{
    for (size_t i = 0; i < e->process.len; i++) {
        const struct dt_python_thread *t = dt_look_stack_of(e, &e->process.tasks[i]);
        if (t && t->depth > 0)
            return t;
    }
    for (size_t i = e->stacks.len; i-- > 0;)
        if (e->stacks.at[i].native_id == 0 && e->stacks.at[i].depth > 0)
            return &e->stacks.at[i];
    return NULL;
}

/* Appends LEAD and as many of the inner frames as fit; false: not even one does. */
static bool put_summary(struct dt_buf *line, const char *lead, const struct dt_python_thread *t)
{
    static const char more[] = " < ...";
    struct dt_buf part = {0};
    size_t i = 0;
    for (; i < t->depth; i++) {
        dt_buf_clear(&part);
        dt_buf_put_str(&part, i ? " < " : lead);
        dt_utf8_put_visible(&part, t->frames[i].function, "");
        dt_buf_put_str(&part, " ");
        put_place(&part, file_name(t->frames[i].file), t->frames[i].line);
        size_t reserved = i + 1 < t->depth ? strlen(more) : 0;
        if (columns_of(line) + columns_of(&part) + reserved > COLUMNS)
            break;
        dt_buf_put(line, part.at, part.len);
    }
    if (i > 0 && i < t->depth)
        dt_buf_put_str(line, more);
    dt_buf_finish(&part);
    return i > 0;
}

static bool keys_equal(const struct dt_buf *a, const struct dt_buf *b)
{
    return a->len == b->len && memcmp(a->at, b->at, a->len) == 0;
}

/* "pid 812 python3 (and 813, 814)" */
static void put_pids(struct dt_buf *line, const struct dt_look *look, const struct dt_buf *keys,
                     size_t first)
{
    size_t alike = 0;
    dt_buf_printf(line, "pid %d ", (int)look->at[first].process.pid);
    dt_utf8_put_visible(line, look->at[first].process.name, "");
    for (size_t i = first + 1; i < look->len; i++) {
        if (!keys_equal(&keys[first], &keys[i]))
            continue;
        if (++alike <= PIDS_SHOWN)
            dt_buf_printf(line, "%s%d", alike == 1 ? " (and " : ", ", (int)look->at[i].process.pid);
    }
    if (alike > PIDS_SHOWN)
        dt_buf_printf(line, ", %zu more", alike - PIDS_SHOWN);
    if (alike > 0)
        dt_buf_put_str(line, ")");
}

/* The processes of a group and, on the same line or the next, their place. */
static void put_header(struct dt_buf *out, const struct dt_look *look, const struct dt_buf *keys,
                       size_t first)
{
    const struct dt_python_thread *stack = main_stack(&look->at[first]);
    struct dt_buf line = {0};
    put_pids(&line, look, keys, first);
    if (stack && !put_summary(&line, ": ", stack)) {
        dt_buf_printf(out, "%s\n", dt_buf_cstr(&line));
        dt_buf_clear(&line);
        put_summary(&line, "  ", stack);
    }
    if (line.len > 0)
        dt_buf_printf(out, "%s\n", dt_buf_cstr(&line));
    dt_buf_finish(&line);
}

static void put_process(struct dt_buf *out, const struct dt_look_entry *e)
{
    if (e->unreadable[0])
        dt_buf_printf(out, "  unreadable: %s\n", e->unreadable);
    if (e->no_native[0])
        dt_buf_printf(out, "  calls of C code: unreadable: %s\n", e->no_native);
    if (e->stacks.collecting)
        dt_buf_put_str(out, "  collects garbage\n");
    for (size_t i = 0; i < e->process.len; i++) {
        const struct dt_python_thread *stack = dt_look_stack_of(e, &e->process.tasks[i]);
        if (stack)
            put_python_thread(out, &e->process.tasks[i], stack);
    }
    for (size_t i = 0; i < e->stacks.len; i++) {
        if (!is_unplaced(&e->stacks.at[i]))
            continue;
        dt_buf_put_str(out, "  one of the threads below\n");
        put_stack(out, &e->stacks.at[i]);
    }
    put_other_threads(out, e);
    if (e->process.more || e->stacks.more)
        dt_buf_printf(out, "  (more than %d threads; the others are left out)\n",
                      DT_LOOK_TASKS_MAX);
}

static bool is_first_of_group(const struct dt_buf *keys, size_t i)
{
    for (size_t k = 0; k < i; k++)
        if (keys_equal(&keys[k], &keys[i]))
            return false;
    return true;
}

/* Once, however many processes it is about. */
static void put_refusal(struct dt_buf *out, const struct dt_look *look)
{
    if (look->refused[0])
        dt_buf_printf(out, "To read what the kernel refuses:\n  %s\n", look->refused);
}

/* "memory: 3.1 GiB of 4 GiB in the control group; the kernel has killed 1 process there for want of
 * it" */
static void put_memory(struct dt_buf *out, const struct dt_look *look)
{
    char used[32], limit[32];
    if (look->memory.limit < 0 && look->killed <= 0)
        return;
    dt_buf_put_str(out, "memory of the control group: ");
    if (look->memory.used >= 0)
        dt_buf_put_str(out, dt_str_from_size((uint64_t)look->memory.used, used, sizeof used));
    if (look->memory.limit >= 0)
        dt_buf_printf(out, " of %s",
                      dt_str_from_size((uint64_t)look->memory.limit, limit, sizeof limit));
    if (look->killed > 0)
        dt_buf_printf(out, "; the kernel has killed %" PRId64 " for want of it", look->killed);
    dt_buf_put_str(out, "\n");
}

void dt_look_print(const struct dt_look *look, struct dt_buf *out)
{
    struct dt_buf *keys = calloc(look->len, sizeof *keys);
    if (!keys) {
        out->bad = true;
        return;
    }
    for (size_t i = 0; i < look->len; i++)
        put_key(&keys[i], &look->at[i]);
    for (size_t i = 0; i < look->len; i++) {
        if (!is_first_of_group(keys, i))
            continue;
        put_header(out, look, keys, i);
        put_process(out, &look->at[i]);
    }
    if (look->more)
        dt_buf_put_str(out, "(there are more processes; these took all the time or room)\n");
    put_refusal(out, look);
    put_memory(out, look);
    for (size_t i = 0; i < look->len; i++)
        dt_buf_finish(&keys[i]);
    free(keys);
}

/* -- JSON -- */

/* null: not told, or for nothing. */
static void put_json_waiting(struct dt_json_writer *w, const struct dt_waiting *waiting)
{
    static const char *const kinds[] = {
        [DT_WAITING_UNKNOWN] = "other",       [DT_WAITING_TIME] = "time",
        [DT_WAITING_FILE] = "file",           [DT_WAITING_PIPE] = "pipe",
        [DT_WAITING_SOCKET] = "socket",       [DT_WAITING_LOCK] = "lock",
        [DT_WAITING_CONDITION] = "condition", [DT_WAITING_MEMORY] = "shared memory",
    };
    if (waiting->kind == DT_WAITING_UNKNOWN && waiting->descriptor < 0) {
        dt_json_put_text(w, "waits_for", NULL);
        return;
    }
    dt_json_put_object(w, "waits_for");
    dt_json_put_text(w, "kind", kinds[waiting->kind]);
    if (waiting->what[0])
        dt_json_put_text(w, "name", waiting->what);
    if (waiting->descriptor >= 0) {
        dt_json_put_int(w, "descriptor", waiting->descriptor);
        dt_json_put_int(w, "more", waiting->others);
    }
    dt_json_put_end(w);
}

static void put_json_native(struct dt_json_writer *w, const struct dt_look_task *t)
{
    dt_json_put_array(w, "native");
    for (size_t i = 0; i < t->native_depth; i++) {
        dt_json_put_object(w, NULL);
        dt_json_put_text(w, "function", t->native[i].function);
        dt_json_put_text(w, "object", t->native[i].object);
        dt_json_put_end(w);
    }
    dt_json_put_end(w);
}

static void put_json_stack(struct dt_json_writer *w, const struct dt_python_thread *stack)
{
    dt_json_put_text(w, "unreadable", stack->unreadable[0] ? stack->unreadable : NULL);
    dt_json_put_bool(w, "changing", stack->changing);
    dt_json_put_bool(w, "deeper", stack->deeper);
    dt_json_put_array(w, "frames");
    for (size_t i = 0; i < stack->depth; i++) {
        dt_json_put_object(w, NULL);
        dt_json_put_text(w, "function", stack->frames[i].function);
        dt_json_put_text(w, "file", stack->frames[i].file);
        dt_json_put_int(w, "line", stack->frames[i].line);
        dt_json_put_end(w);
    }
    dt_json_put_end(w);
}

static void put_json_thread(struct dt_json_writer *w, const struct dt_look_task *t,
                            const struct dt_python_thread *stack)
{
    const char state[] = {t->state, '\0'};
    char name[DT_SYSCALL_NAME_MAX];
    dt_json_put_object(w, NULL);
    dt_json_put_int(w, "tid", t->tid);
    dt_json_put_text(w, "name", t->name);
    dt_json_put_text(w, "state", state);
    dt_json_put_text(w, "wchan", t->wchan[0] ? t->wchan : NULL);
    dt_json_put_text(w, "syscall",
                     t->call.number >= 0 ? dt_syscall_name(t->call.number, name) : NULL);
    put_json_waiting(w, &t->waiting);
    dt_json_put_number(w, "cpu_seconds", (double)t->cpu_ms / 1000);
    if (t->native)
        put_json_native(w, t);
    if (stack)
        put_json_stack(w, stack);
    dt_json_put_end(w);
}

/* Stacks of which it is not known whose they are. */
static void put_json_unplaced(struct dt_json_writer *w, const struct dt_look_entry *e)
{
    for (size_t i = 0; i < e->stacks.len; i++) {
        if (!is_unplaced(&e->stacks.at[i]))
            continue;
        dt_json_put_object(w, NULL);
        dt_json_put_text(w, "tid", NULL);
        put_json_stack(w, &e->stacks.at[i]);
        dt_json_put_end(w);
    }
}

/* The file of a CPython before 3.11 tells no third number. */
static void put_json_version(struct dt_json_writer *w, uint32_t hex)
{
    char version[32];
    int n = snprintf(version, sizeof version, "%u.%u", hex >> 24, hex >> 16 & 255);
    if (hex & 0xffff)
        snprintf(version + n, sizeof version - (size_t)n, ".%u", hex >> 8 & 255);
    dt_json_put_text(w, "python", hex ? version : NULL);
}

static void put_json_process(struct dt_json_writer *w, const struct dt_look_entry *e)
{
    dt_json_put_object(w, NULL);
    dt_json_put_int(w, "pid", e->process.pid);
    dt_json_put_text(w, "name", e->process.name);
    put_json_version(w, e->python);
    dt_json_put_text(w, "unreadable", e->unreadable[0] ? e->unreadable : NULL);
    dt_json_put_text(w, "no_native", e->no_native[0] ? e->no_native : NULL);
    dt_json_put_bool(w, "collecting_garbage", e->stacks.collecting);
    dt_json_put_bool(w, "more_threads", e->process.more || e->stacks.more);
    dt_json_put_array(w, "threads");
    for (size_t i = 0; i < e->process.len; i++)
        put_json_thread(w, &e->process.tasks[i], dt_look_stack_of(e, &e->process.tasks[i]));
    put_json_unplaced(w, e);
    dt_json_put_end(w);
    dt_json_put_end(w);
}

static void put_json_count(struct dt_json_writer *w, const char *name, int64_t count)
{
    if (count < 0)
        dt_json_put_null(w, name);
    else
        dt_json_put_int(w, name, count);
}

void dt_look_put_json(const struct dt_look *look, struct dt_json_writer *w)
{
    dt_json_put_object(w, NULL);
    dt_json_put_bool(w, "more_processes", look->more);
    dt_json_put_text(w, "refused", look->refused[0] ? look->refused : NULL);
    dt_json_put_object(w, "memory");
    put_json_count(w, "used", look->memory.used);
    put_json_count(w, "limit", look->memory.limit);
    put_json_count(w, "killed", look->killed);
    dt_json_put_end(w);
    dt_json_put_array(w, "processes");
    for (size_t i = 0; i < look->len; i++)
        put_json_process(w, &look->at[i]);
    dt_json_put_end(w);
    dt_json_put_end(w);
}
