/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/hang/posture.h"

#include "agent/hang/frames.h"
#include "agent/look/syscall_name.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* -- one thread -- */

struct view {
    const struct dt_look_entry *entry;
    const struct dt_look_task *task; /* NULL: of a process that was gone */
    const struct dt_python_thread *stack;
    size_t depth;                   /* frames of its own */
    size_t user;                    /* DEPTH: none */
    const struct dt_frame_row *row; /* NULL: none fits */
    size_t at;                      /* the frame of ROW */
};

static bool is_over(const struct dt_look_task *t)
{
    return t->state == 'Z' || t->state == 'X';
}

static bool is_stopped(const struct dt_look_task *t)
{
    return t->state == 'T' || t->state == 't';
}

/* Where the numbers of Python's threads are not known, the last of its list is the main one. */
static const struct dt_python_thread *stack_of(const struct dt_look_entry *e,
                                               const struct dt_look_task *t)
{
    const struct dt_python_thread *stack = dt_look_stack_of(e, t);
    const struct dt_python_thread *last = e->stacks.len ? &e->stacks.at[e->stacks.len - 1] : NULL;
    if (stack || t->tid != e->process.pid || !last || last->native_id != 0)
        return stack;
    return last;
}

static struct view view_of(const struct dt_look_entry *e, const struct dt_look_task *t)
{
    struct view v = {.entry = e, .task = t, .stack = t ? stack_of(e, t) : NULL};
    if (!v.stack)
        return v;
    v.depth = dt_frames_own(v.stack->frames, v.stack->depth);
    v.user = dt_frames_user(v.stack->frames, v.depth);
    bool whole = v.depth == v.stack->depth && !v.stack->deeper;
    v.row = dt_frames_meaning(v.stack->frames, v.depth, v.user, whole, t->state != 'R', &v.at);
    return v;
}

static const struct dt_look_task *main_task(const struct dt_look_entry *e)
{
    for (size_t i = 0; i < e->process.len; i++)
        if (e->process.tasks[i].tid == e->process.pid)
            return &e->process.tasks[i];
    return e->process.len > 0 ? &e->process.tasks[0] : NULL;
}

/* Who wants Python's lock of everything waits for it some milliseconds, again and again. */
static bool wants_gil(const struct view *v)
{
    return v->depth > 0 && !(v->row && v->row->doing == DT_DOING_COLLECTIVE) &&
           v->task->waiting.kind == DT_WAITING_CONDITION && v->task->waiting.briefly;
}

/* Whether the thread only waits for another one of Python's. */
static bool only_waits(const struct view *v)
{
    return (v->row && v->row->joins) || wants_gil(v);
}

/* The thread that tells what the process does: the main one, unless it only waits for another of
 * Python's, or runs no Python. */
static struct view telling_view(const struct dt_look_entry *e)
{
    struct view first = view_of(e, main_task(e));
    if (!first.task || (first.depth > 0 && !only_waits(&first)))
        return first;
    for (size_t i = 0; i < e->process.len; i++) {
        struct view v = view_of(e, &e->process.tasks[i]);
        if (v.task != first.task && v.user < v.depth && !only_waits(&v))
            return v;
    }
    return first;
}

/* -- what the kernel says of it -- */

static const struct {
    const char *call;
    enum dt_doing doing;
} calls[] = {
    {"wait4", DT_DOING_CHILD},
    {"waitid", DT_DOING_CHILD},
    {"sched_yield", DT_DOING_COMPUTE},
};

/* The call in which T waits, or the place in the kernel; "" where neither is told. */
static const char *call_of(const struct dt_look_task *t, char name[DT_SYSCALL_NAME_MAX])
{
    return t->call.number >= 0 ? dt_syscall_name(t->call.number, name) : t->wchan;
}

/* A lock of files, or a device, is no disk; and a pipe with a name is no file. */
static enum dt_doing file_doing(const struct dt_look_task *t)
{
    char name[DT_SYSCALL_NAME_MAX];
    const char *call = call_of(t, name);
    if (strstr(t->wchan, "pipe") || strcmp(t->wchan, "wait_for_partner") == 0)
        return DT_DOING_PIPE;
    if (strcmp(call, "flock") == 0 || strcmp(call, "fcntl") == 0 ||
        strncmp(t->waiting.what, "/dev/", strlen("/dev/")) == 0)
        return DT_DOING_WAIT;
    return DT_DOING_DISK;
}

static enum dt_doing asleep_doing(const struct dt_look_task *t)
{
    char name[DT_SYSCALL_NAME_MAX];
    switch (t->waiting.kind) {
    case DT_WAITING_TIME:
        return DT_DOING_SLEEP;
    case DT_WAITING_FILE:
        return file_doing(t);
    case DT_WAITING_PIPE:
        return DT_DOING_PIPE;
    case DT_WAITING_SOCKET:
        return DT_DOING_SOCKET;
    case DT_WAITING_LOCK:
    case DT_WAITING_CONDITION:
        return DT_DOING_LOCK;
    case DT_WAITING_MEMORY:
        return DT_DOING_WAIT;
    case DT_WAITING_UNKNOWN:
        break;
    }
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        if (strcmp(calls[i].call, call_of(t, name)) == 0)
            return calls[i].doing;
    return DT_DOING_WAIT;
}

/* Who starts a program by vfork(2), as subprocess does, waits as if for a disk until that runs. */
static bool is_starting_child(const struct dt_look_task *t)
{
    char name[DT_SYSCALL_NAME_MAX];
    const char *call = call_of(t, name);
    return strcmp(call, "vfork") == 0 || strncmp(call, "clone", strlen("clone")) == 0;
}

static enum dt_doing kernel_doing(const struct dt_look_task *t)
{
    if (is_stopped(t))
        return DT_DOING_STOPPED;
    if (is_over(t))
        return DT_DOING_LEFT;
    if (t->state == 'D')
        return is_starting_child(t) ? DT_DOING_CHILD : DT_DOING_DISK;
    return t->state == 'R' ? DT_DOING_COMPUTE : asleep_doing(t);
}

/* -- all of it -- */

__attribute__((format(printf, 3, 4))) static void put(char *out, size_t size, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    vsnprintf(out, size, fmt, args);
    va_end(args);
}

/* The user's own code has called something in C that waits for a thread of C: a lock of Python's
 * would be a semaphore, so that it is most likely the end of a collective that was started before,
 * by Work.wait(). */
static bool waits_for_work(const struct view *v)
{
    return v->user == 0 && v->depth > 0 && v->task->waiting.kind == DT_WAITING_CONDITION &&
           !v->task->waiting.briefly;
}

/* What Python's stack and the kernel say together. */
static enum dt_doing doing_of(const struct view *v)
{
    if (!v->task)
        return DT_DOING_LEFT;
    enum dt_doing kernel = kernel_doing(v->task);
    if (kernel == DT_DOING_STOPPED || kernel == DT_DOING_LEFT)
        return kernel;
    if (v->entry->unreadable[0] || (v->stack && v->stack->unreadable[0]))
        return kernel == DT_DOING_DISK ? kernel : DT_DOING_UNKNOWN;
    if (v->entry->python && (!v->stack || v->stack->depth == 0))
        return DT_DOING_LEFT;
    if (waits_for_work(v))
        return DT_DOING_COLLECTIVE;
    if (kernel == DT_DOING_COMPUTE && v->entry->stacks.collecting)
        kernel = DT_DOING_COLLECT;
    return v->row && v->row->doing < kernel ? v->row->doing : kernel;
}

/* "FILE:LINE" of the user's frame. */
static void put_where(const struct view *v, char out[DT_STANCE_WHERE_MAX])
{
    _Static_assert(DT_PYTHON_FILE_MAX + 12 <= DT_STANCE_WHERE_MAX, "a place fits");
    const struct dt_python_frame *f = &v->stack->frames[v->user];
    put(out, DT_STANCE_WHERE_MAX, "%s:%d", f->file, f->line);
}

static void put_place(const struct view *v, struct dt_stance *out)
{
    if (!v->stack || v->user >= v->depth)
        return;
    put_where(v, out->where);
    put(out->function, sizeof out->function, "%s", v->stack->frames[v->user].function);
}

static void put_row(const struct view *v, struct dt_stance *out)
{
    if (v->row && v->row->doing == DT_DOING_COLLECTIVE)
        put(out->collective, sizeof out->collective, "%s",
            v->row->collective ? v->row->collective : dt_frame_name(&v->stack->frames[v->at]));
    if (out->doing == DT_DOING_COLLECTIVE && !v->row) {
        put(out->collective, sizeof out->collective, "Work.wait()");
        put(out->detail, sizeof out->detail, "most likely: it waits in C code for another thread");
    }
    if (v->row && v->row->doing == out->doing && v->row->detail)
        put(out->detail, sizeof out->detail, "%s", v->row->detail);
}

/* A thread that computes may in truth spin until the GPU is done: CUDA and NCCL give away by their
 * threads' names that they are there. */
static bool uses_gpu(const struct dt_look_entry *e)
{
    for (size_t i = 0; i < e->process.len; i++)
        if (strncmp(e->process.tasks[i].name, "cuda", 4) == 0 ||
            strncmp(e->process.tasks[i].name, "pt_nccl", 7) == 0)
            return true;
    return false;
}

static void put_detail(const struct view *v, struct dt_stance *out)
{
    const struct view first = view_of(v->entry, main_task(v->entry));
    if (out->doing == DT_DOING_UNKNOWN)
        put(out->detail, sizeof out->detail, "%s",
            v->entry->unreadable[0] ? v->entry->unreadable : v->stack->unreadable);
    else if (out->doing == DT_DOING_LEFT && v->task && !is_over(v->task))
        put(out->detail, sizeof out->detail, "Python ends there");
    else if (out->doing == DT_DOING_STOPPED)
        put(out->detail, sizeof out->detail, "by a %s",
            v->task->state == 't' ? "debugger" : "signal");
    else if (out->doing == DT_DOING_COMPUTE && uses_gpu(v->entry))
        put(out->detail, sizeof out->detail, "or waits for the GPU, which looks the same");
    else if (!out->detail[0] && v->task != first.task && v->depth > 0 && wants_gil(&first))
        put(out->detail, sizeof out->detail,
            "in thread %d, which most likely holds the GIL that the main thread wants",
            (int)v->task->tid);
    else if (!out->detail[0] && v->task != first.task && first.row && first.row->joins)
        put(out->detail, sizeof out->detail, "in thread %d, for which the main thread waits",
            (int)v->task->tid);
}

/* -- processes of its own -- */

/* How bad what a child does is for a parent that waits for it. */
enum woe { IDLE, BUSY, WAITS, STUCK, HALTED, GONE };

static const char *const compilers[] = {"gcc",     "g++",   "cc1",  "cc1plus", "clang",
                                        "clang++", "ld",    "nvcc", "cicc",    "ptxas",
                                        "ninja",   "hipcc", "as"};

static bool is_compiler(const struct dt_look_entry *e)
{
    for (size_t i = 0; i < sizeof compilers / sizeof *compilers; i++)
        if (strcmp(e->process.name, compilers[i]) == 0)
            return true;
    return false;
}

static enum woe woe_of(const struct view *v, enum dt_doing doing)
{
    switch (doing) {
    case DT_DOING_LEFT:
        return GONE;
    case DT_DOING_STOPPED:
        return HALTED;
    case DT_DOING_DISK:
        return STUCK;
    case DT_DOING_COMPUTE:
        return BUSY;
    case DT_DOING_SLEEP:
        return WAITS;
    default:
        /* Nothing of the user's runs in one that waits for work. */
        return v->stack && !v->entry->unreadable[0] && v->user >= v->depth ? IDLE : WAITS;
    }
}

/* "/data/a.bin", "10.0.0.2:29500", or in which call where that is not known. */
static void put_waiting(const struct dt_look_task *t, char *out, size_t size)
{
    char name[DT_SYSCALL_NAME_MAX];
    if (t->waiting.kind == DT_WAITING_MEMORY)
        put(out, size, "memory that it shares with other processes");
    else
        put(out, size, "%s", t->waiting.what[0] ? t->waiting.what : call_of(t, name));
}

/* " is gone", " sleeps", ": D state in FILE": behind "process 812". */
static void put_child_doing(const struct view *v, enum dt_doing doing, struct dt_buf *text)
{
    char object[DT_STANCE_OBJECT_MAX];
    static const char *const words[DT_DOINGS] = {
        [DT_DOING_UNKNOWN] = " cannot be read", [DT_DOING_STOPPED] = " is stopped",
        [DT_DOING_LEFT] = " is gone",           [DT_DOING_LOCK] = " waits for a lock",
        [DT_DOING_SLEEP] = " sleeps",           [DT_DOING_COMPUTE] = " computes",
    };
    if (words[doing]) {
        dt_buf_put_str(text, words[doing]);
        return;
    }
    put_waiting(v->task, object, sizeof object);
    dt_buf_printf(text, "%s %s",
                  doing == DT_DOING_DISK     ? ": D state in"
                  : v->task->waiting.what[0] ? " waits for"
                                             : " waits in",
                  object);
}

static void put_child(const struct view *v, enum dt_doing doing, char *out, size_t size)
{
    struct dt_buf text = {0};
    dt_buf_printf(&text, "process %d", (int)v->entry->process.pid);
    if (!v->entry->python && doing != DT_DOING_LEFT)
        dt_buf_printf(&text, " (%s)", v->entry->process.name);
    put_child_doing(v, doing, &text);
    if (v->user < v->depth) {
        char where[DT_STANCE_WHERE_MAX];
        put_where(v, where);
        dt_buf_printf(&text, " at %s", where);
    }
    put(out, size, "%s", dt_buf_cstr(&text));
    dt_buf_finish(&text);
}

/* One that has not yet become the program that it is to run has none of Python's threads either. */
static enum dt_doing child_doing(const struct view *v)
{
    enum dt_doing doing = doing_of(v);
    return doing == DT_DOING_LEFT && v->task ? kernel_doing(v->task) : doing;
}

/* What the processes behind FIRST do, for which that one waits: the worst of them. */
static void put_children(const struct dt_look *look, size_t first, struct dt_stance *out)
{
    enum woe worst = IDLE;
    for (size_t i = first + 1; i < look->len; i++) {
        struct view v = telling_view(&look->at[i]);
        enum dt_doing doing = child_doing(&v);
        enum woe woe = woe_of(&v, doing);
        if (is_compiler(v.entry) && woe <= WAITS && out->doing == DT_DOING_CHILD)
            out->doing = DT_DOING_COMPILE;
        if (woe <= worst)
            continue;
        worst = woe;
        put_child(&v, doing, out->object, sizeof out->object);
    }
    if (out->object[0] == '\0')
        put(out->object, sizeof out->object, "%s",
            look->len > first + 1 ? "all of them wait for work" : "there is none");
}

/* -- the whole -- */

/* The worker, which a shell may have started and wait for. */
static size_t worker_of(const struct dt_look *look)
{
    const struct dt_look_task *t = main_task(&look->at[0]);
    if (look->at[0].python || !t || kernel_doing(t) != DT_DOING_CHILD)
        return 0;
    for (size_t i = 1; i < look->len; i++)
        if (look->at[i].python)
            return i;
    return 0;
}

static void put_object(const struct dt_look *look, size_t first, const struct view *v,
                       struct dt_stance *out)
{
    switch (out->doing) {
    case DT_DOING_CHILD:
        put_children(look, first, out);
        break;
    case DT_DOING_DISK:
    case DT_DOING_PIPE:
    case DT_DOING_SOCKET:
    case DT_DOING_WAIT:
        put_waiting(v->task, out->object, sizeof out->object);
        break;
    default:
        break;
    }
}

void dt_posture_of(const struct dt_look *look, const struct dt_page_told *page,
                   struct dt_stance *out)
{
    *out = (struct dt_stance){.sequence = -1, .step = page && page->seen ? page->step : -1};
    if (look->len == 0) {
        put(out->detail, sizeof out->detail, "nobody has looked at it");
        return;
    }
    size_t first = worker_of(look);
    struct view v = telling_view(&look->at[first]);
    out->doing = doing_of(&v);
    put_place(&v, out);
    put_row(&v, out);
    put_detail(&v, out);
    put_object(look, first, &v, out);
    if (!v.entry->python && page && page->section[0])
        put(out->function, sizeof out->function, "section %s", page->section);
}
