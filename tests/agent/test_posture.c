/* SPDX-License-Identifier: Apache-2.0 */
/* What a worker does, by looks that were written down: stacks as PyTorch 1.13 and 2.6 show them. */
#include "agent/hang/posture.h"
#include "tests/lib/check.h"

#include <sys/syscall.h>

#define STDLIB "/usr/lib/python3.11/"
#define TORCH "/usr/lib/python3/dist-packages/torch/"
#define C10D TORCH "distributed/distributed_c10d.py"
#define LOADER TORCH "utils/data/dataloader.py"
#define MODULE " < <module> /job/train.py:30"
#define NO_SYSCALL DT_LOOK_NO_SYSCALL

#define PYTHON 0x030b02f0
#define PROCESSES 4
#define THREADS 3
#define DEPTH 12

/* One thread. STACK: "inner FILE:LINE < outer FILE:LINE"; NULL: it runs no Python. */
struct thread {
    char state;
    long syscall;
    const char *stack;
    const char *name;
    enum dt_waiting_kind kind;
    const char *what;
};

struct process {
    const char *name; /* NULL: of Python */
    struct thread threads[THREADS];
    const char *unreadable;
};

static struct {
    struct dt_look_entry entries[PROCESSES];
    struct dt_look_task tasks[PROCESSES][THREADS];
    struct dt_python_thread stacks[PROCESSES][THREADS];
    struct dt_python_frame frames[PROCESSES][THREADS][DEPTH];
} at;

static size_t write_stack(struct dt_python_frame *frames, const char *text)
{
    size_t depth = 0;
    while (text && depth < DEPTH) {
        struct dt_python_frame *f = &frames[depth++];
        CHECK_EQ(sscanf(text, "%127s %255[^:]:%d", f->function, f->file, &f->line), 3);
        text = strstr(text, " < ");
        text = text ? text + 3 : NULL;
    }
    CHECK(!text);
    return depth;
}

/* Where a row does not say. */
static enum dt_waiting_kind usual_kind(long syscall)
{
    switch (syscall) {
    case SYS_futex:
        return DT_WAITING_LOCK;
    case SYS_clock_nanosleep:
        return DT_WAITING_TIME;
    default:
        return DT_WAITING_UNKNOWN;
    }
}

static void write_thread(size_t i, size_t k, const struct thread *t)
{
    struct dt_look_entry *e = &at.entries[i];
    struct dt_look_task *task = &at.tasks[i][k];
    *task = (struct dt_look_task){.tid = e->process.pid + (pid_t)k,
                                  .inner = e->process.pid + (pid_t)k,
                                  .state = t->state,
                                  .call = {.number = t->syscall}};
    task->waiting.kind = t->kind ? t->kind : usual_kind(t->syscall);
    snprintf(task->waiting.what, sizeof task->waiting.what, "%s", t->what ? t->what : "");
    if (t->syscall == SYS_openat)
        snprintf(task->wchan, sizeof task->wchan, "wait_for_partner");
    if (t->state == 'D' && !t->kind)
        snprintf(task->wchan, sizeof task->wchan, "folio_wait_bit");
    snprintf(task->name, sizeof task->name, "%s", t->name ? t->name : "python3");
    e->process.len++;
    if (!t->stack)
        return;
    struct dt_python_thread *stack = &at.stacks[i][e->stacks.len++];
    stack->native_id = (uint64_t)task->inner;
    stack->frames = at.frames[i][k];
    stack->depth = write_stack(stack->frames, t->stack);
}

/* The look at PROCESSES; the first is the worker, process 800, the next 801. */
static struct dt_look write_look(const struct process *processes)
{
    memset(&at, 0, sizeof at);
    struct dt_look look = {.at = at.entries};
    for (size_t i = 0; i < PROCESSES && processes[i].threads[0].state; i++) {
        struct dt_look_entry *e = &look.at[look.len++];
        const struct process *p = &processes[i];
        e->python = p->name || p->threads[0].state == 'Z' ? 0 : PYTHON;
        e->process = (struct dt_look_process){.pid = 800 + (pid_t)i, .tasks = at.tasks[i]};
        e->stacks.at = at.stacks[i];
        snprintf(e->process.name, sizeof e->process.name, "%s", p->name ? p->name : "python3");
        snprintf(e->unreadable, sizeof e->unreadable, "%s", p->unreadable ? p->unreadable : "");
        for (size_t k = 0; k < THREADS && p->threads[k].state; k++)
            write_thread(i, k, &p->threads[k]);
    }
    return look;
}

struct row {
    const char *story;
    struct process processes[PROCESSES];
    enum dt_doing doing;
    const char *where, *function, *collective, *object, *detail;
};

static void check_row(const struct row *r, const struct dt_page_told *page)
{
    struct dt_stance s;
    CHECK_ROW("%s", r->story);
    struct dt_look look = write_look(r->processes);
    dt_posture_of(&look, page, &s);
    CHECK_EQ(s.doing, r->doing);
    CHECK_STR(s.where, r->where ? r->where : "");
    CHECK_STR(s.function, r->function ? r->function : "");
    CHECK_STR(s.collective, r->collective ? r->collective : "");
    CHECK_STR(s.object, r->object ? r->object : "");
    CHECK_STR(s.detail, r->detail ? r->detail : "");
    CHECK_EQ(s.sequence, -1);
    CHECK_EQ(s.still, 0);
}

#define CHECK_ROWS(rows, page)                                                                     \
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)                                        \
    check_row(&rows[i], page)

/* clang-format off */
#define T(s, call, text) {.state = (s), .syscall = (call), .stack = (text)}
#define NAMED(s, call, thread) {.state = (s), .syscall = (call), .name = (thread)}
/* ... which waits for what the kernel tells */
#define FOR(s, call, text, what_kind, object) {.state = (s), .syscall = (call), .stack = (text), .kind = (what_kind), .what = (object)}

/* A worker of one thread. */
#define ONE(...) {{NULL, {T(__VA_ARGS__)}, NULL}}
#define TRAIN .where = "/job/train.py:30", .function = "<module>"

TEST(collectives)
{
    static const struct row rows[] = {
        {"all_reduce", ONE('S', SYS_futex, "all_reduce " C10D ":1541" MODULE),
         DT_DOING_COLLECTIVE, TRAIN, .collective = "all_reduce"},
        {"the same of PyTorch 2, in a wrapper, with names of methods",
         ONE('S', SYS_futex, "all_reduce " C10D ":2501 < _exception_logger.<locals>.wrapper "
             TORCH "distributed/c10d_logger.py:83" MODULE), DT_DOING_COLLECTIVE, TRAIN, .collective = "all_reduce"},
        {"the outermost one is what the user has called",
         ONE('S', SYS_futex, "all_gather " C10D ":2277 < all_gather_object " C10D ":1891" MODULE),
         DT_DOING_COLLECTIVE, TRAIN, .collective = "all_gather_object"},
        {"a step of init_process_group is init_process_group",
         ONE('S', SYS_clock_nanosleep, "_store_based_barrier " C10D ":345 < init_process_group " C10D ":786" MODULE),
         DT_DOING_COLLECTIVE, TRAIN, .collective = "init_process_group"},
        {"... so is its rendezvous",
         ONE('S', SYS_poll, "_create_c10d_store " TORCH "distributed/rendezvous.py:172 < _env_rendezvous_handler "
             TORCH "distributed/rendezvous.py:242 < init_process_group " C10D ":761" MODULE),
         DT_DOING_COLLECTIVE, TRAIN, .collective = "init_process_group"},
        {"a collective that spins", ONE('R', NO_SYSCALL, "barrier " C10D ":3150" MODULE),
         DT_DOING_COLLECTIVE, TRAIN, .collective = "barrier"},
        {"the backward of DistributedDataParallel shows autograd alone",
         ONE('S', SYS_futex, "backward " TORCH "autograd/__init__.py:197 < Tensor.backward " TORCH "_tensor.py:488" MODULE),
         DT_DOING_COLLECTIVE, TRAIN, .collective = "backward", .detail = "most likely for the sum of gradients over all ranks"},
        {"a backward that computes", ONE('R', NO_SYSCALL, "backward " TORCH "autograd/__init__.py:197" MODULE),
         DT_DOING_COMPUTE, TRAIN},
        {"its forward", ONE('S', SYS_futex, "DistributedDataParallel.forward " TORCH "nn/parallel/distributed.py:1040 < "
             "Module._call_impl " TORCH "nn/modules/module.py:1194" MODULE),
         DT_DOING_COLLECTIVE, TRAIN, .collective = "forward of DistributedDataParallel"},
        {"what its model computes is no collective",
         ONE('S', SYS_futex, "Linear.forward " TORCH "nn/modules/linear.py:114 < "
             "DistributedDataParallel.forward " TORCH "nn/parallel/distributed.py:1040" MODULE), DT_DOING_LOCK, TRAIN},
        {"it is made", ONE('S', SYS_futex, "_verify_param_shape_across_processes " TORCH "distributed/utils.py:108 < "
             "DistributedDataParallel.__init__ " TORCH "nn/parallel/distributed.py:655" MODULE),
         DT_DOING_COLLECTIVE, TRAIN, .collective = "DistributedDataParallel()"},
        {"the GPU", ONE('R', NO_SYSCALL, "synchronize " TORCH "cuda/__init__.py:566" MODULE), DT_DOING_COLLECTIVE, TRAIN,
         .collective = "synchronize", .detail = "waits for the GPU, most likely for a collective of NCCL"},
        {"a checkpoint that gathers is in the collective",
         ONE('S', SYS_futex, "gather_object " C10D ":2001 < save_state_dict " TORCH "distributed/checkpoint/state_dict_saver.py:99" MODULE),
         DT_DOING_COLLECTIVE, TRAIN, .collective = "gather_object"},
        {"the store of the job, by hand", ONE('S', SYS_poll, "_create_c10d_store " TORCH "distributed/rendezvous.py:172" MODULE),
         DT_DOING_STORE, TRAIN},
    };
    CHECK_ROWS(rows, NULL);
}

TEST(places_of_its_own)
{
    static const struct row rows[] = {
        {"it sleeps", ONE('S', SYS_clock_nanosleep, "load_batch /job/data.py:5 < train /job/train.py:22" MODULE),
         DT_DOING_SLEEP, .where = "/job/data.py:5", .function = "load_batch"},
        {"it computes", ONE('R', NO_SYSCALL, "<module> /job/train.py:30"), DT_DOING_COMPUTE, TRAIN},
        {"a package computes for it", ONE('R', NO_SYSCALL, "dot /venv/lib/python3.11/site-packages/numpy/core.py:7" MODULE),
         DT_DOING_COMPUTE, TRAIN},
        {"a lock", ONE('S', SYS_futex, "<module> /job/train.py:30"), DT_DOING_LOCK, TRAIN},
        {"a lock by threading", ONE('S', SYS_futex, "Condition.wait " STDLIB "threading.py:320 < Event.wait " STDLIB "threading.py:622" MODULE),
         DT_DOING_LOCK, TRAIN},
        {"a lock with a time limit sleeps no more than without",
         ONE('S', SYS_clock_nanosleep, "Queue.get " STDLIB "queue.py:171" MODULE), DT_DOING_LOCK, TRAIN},
        {"the disk", {{NULL, {FOR('D', SYS_read, "<module> /job/train.py:30", DT_WAITING_FILE, "/data/a.bin")}, NULL}},
         DT_DOING_DISK, TRAIN, .object = "/data/a.bin"},
        {"a disk that may be interrupted", {{NULL, {FOR('S', SYS_read, "<module> /job/train.py:30", DT_WAITING_FILE, "/data/a.bin")}, NULL}},
         DT_DOING_DISK, TRAIN, .object = "/data/a.bin"},
        {"a page that is on a disk", ONE('D', NO_SYSCALL, "<module> /job/train.py:30"), DT_DOING_DISK, TRAIN, .object = "folio_wait_bit"},
        {"a file that another program has locked", {{NULL, {FOR('S', SYS_flock, "<module> /job/train.py:30", DT_WAITING_FILE, "/data/lock")}, NULL}},
         DT_DOING_WAIT, TRAIN, .object = "/data/lock"},
        {"a driver", {{NULL, {FOR('S', SYS_ioctl, "<module> /job/train.py:30", DT_WAITING_FILE, "/dev/nvidia0")}, NULL}},
         DT_DOING_WAIT, TRAIN, .object = "/dev/nvidia0"},
        {"a pipe that nobody else opens", {{NULL, {FOR('S', SYS_openat, "<module> /job/train.py:30", DT_WAITING_FILE, "/job/fifo")}, NULL}},
         DT_DOING_PIPE, TRAIN, .object = "/job/fifo"},
        {"a pipe", {{NULL, {FOR('S', SYS_read, "<module> /job/train.py:30", DT_WAITING_PIPE, "pipe:[7]")}, NULL}},
         DT_DOING_PIPE, TRAIN, .object = "pipe:[7]"},
        {"a peer", {{NULL, {FOR('S', SYS_recvfrom, "SocketIO.readinto " STDLIB "socket.py:706" MODULE, DT_WAITING_SOCKET, "10.0.0.2:80")}, NULL}},
         DT_DOING_SOCKET, TRAIN, .object = "10.0.0.2:80"},
        {"a thread of C", {{NULL, {FOR('S', SYS_futex, "<module> /job/train.py:30", DT_WAITING_CONDITION, NULL)}, NULL}},
         DT_DOING_COLLECTIVE, TRAIN, .collective = "Work.wait()", .detail = "most likely: it waits in C code for another thread"},
        {"a thread of C, for a package", {{NULL, {FOR('S', SYS_futex, "dot /venv/lib/python3.11/site-packages/numpy/core.py:7" MODULE, DT_WAITING_CONDITION, NULL)}, NULL}},
         DT_DOING_LOCK, TRAIN},
        {"some other call", ONE('S', SYS_epoll_pwait, "<module> /job/train.py:30"), DT_DOING_WAIT, TRAIN, .object = "epoll_pwait"},
        {"stopped, in whatever", ONE('T', SYS_futex, "all_reduce " C10D ":1541" MODULE), DT_DOING_STOPPED, TRAIN,
         .collective = "all_reduce", .detail = "by a signal"},
        {"a debugger", ONE('t', NO_SYSCALL, "<module> /job/train.py:30"), DT_DOING_STOPPED, TRAIN, .detail = "by a debugger"},
        {"a checkpoint", ONE('R', NO_SYSCALL, "save " TORCH "serialization.py:423" MODULE), DT_DOING_SAVE, TRAIN},
        {"a checkpoint on a slow disk", ONE('D', NO_SYSCALL, "save " TORCH "serialization.py:423" MODULE), DT_DOING_SAVE, TRAIN},
        {"reading one is no saving", ONE('R', NO_SYSCALL, "load " TORCH "serialization.py:789" MODULE), DT_DOING_COMPUTE, TRAIN},
        {"it compiles", ONE('R', NO_SYSCALL, "ast_to_ttir /venv/lib/python3.11/site-packages/triton/compiler/code_generator.py:9 < "
             "compile /venv/lib/python3.11/site-packages/triton/compiler/compiler.py:3" MODULE), DT_DOING_COMPILE, TRAIN},
        {"code that was compiled runs", ONE('R', NO_SYSCALL, "call /tmp/torchinductor_me/ab/cab.py:40 < "
             "_fn /venv/lib/python3.11/site-packages/torch/_dynamo/eval_frame.py:600" MODULE), DT_DOING_COMPUTE, TRAIN},
        {"somebody else's build", ONE('S', SYS_clock_nanosleep, "FileBaton.wait " TORCH "utils/file_baton.py:42 < "
             "load " TORCH "utils/cpp_extension.py:1284" MODULE), DT_DOING_COMPILE, TRAIN,
         .detail = "waits until another process has built the same; its lock file may be left over"},
        {"a trainer that is a package", ONE('S', SYS_clock_nanosleep, "sleep_on /venv/lib/python3.11/site-packages/mytrainer/loop.py:8 < "
             "_run_code <frozen runpy>:88"), DT_DOING_SLEEP,
         .where = "/venv/lib/python3.11/site-packages/mytrainer/loop.py:8", .function = "sleep_on"},
        {"a script on the command line", ONE('S', SYS_clock_nanosleep, "<module> <string>:1"), DT_DOING_SLEEP,
         .where = "<string>:1", .function = "<module>"},
    };
    CHECK_ROWS(rows, NULL);
}

TEST(ends)
{
    static const struct row rows[] = {
        {"it joins its threads at exit", ONE('S', SYS_futex, "_shutdown " STDLIB "threading.py:1583"),
         DT_DOING_LEFT, .detail = "Python ends there"},
        {"it joins its processes at exit", ONE('S', SYS_wait4, "Popen.poll " STDLIB "multiprocessing/popen_fork.py:27 < "
             "Popen.wait " STDLIB "multiprocessing/popen_fork.py:43 < _exit_function " STDLIB "multiprocessing/util.py:360"),
         DT_DOING_LEFT, .detail = "Python ends there"},
        {"a process of multiprocessing that joins is none of these",
         ONE('S', SYS_wait4, "Popen.wait " STDLIB "multiprocessing/popen_fork.py:43" MODULE), DT_DOING_CHILD, TRAIN,
         .object = "there is none"},
        {"no Python runs any more", ONE('S', SYS_futex, NULL), DT_DOING_LEFT, .detail = "Python ends there"},
        {"it is a zombie", ONE('Z', NO_SYSCALL, NULL), DT_DOING_LEFT, .where = ""},
        {"it may not be read", {{NULL, {T('S', NO_SYSCALL, NULL)}, "the kernel refuses it"}}, DT_DOING_UNKNOWN,
         .detail = "the kernel refuses it"},
        {"... and is stopped, which is known all the same", {{NULL, {T('T', NO_SYSCALL, NULL)}, "the kernel refuses it"}},
         DT_DOING_STOPPED, .detail = "by a signal"},
    };
    CHECK_ROWS(rows, NULL);
}

#define TRY_GET "_MultiProcessingDataLoaderIter._try_get_data " LOADER ":1120"
#define WAITING {NULL, {T('S', SYS_poll, "Connection.poll " STDLIB "multiprocessing/connection.py:257 < Queue.get " \
        STDLIB "multiprocessing/queues.py:113 < " TRY_GET MODULE)}, NULL}
/* A process that was forked has the frames of its parent for ever. */
#define FORKED "_worker_loop " TORCH "utils/data/_utils/worker.py:302 < BaseProcess._bootstrap " STDLIB "multiprocessing/process.py:314" MODULE
#define IDLER {NULL, {T('S', SYS_poll, "Queue.get " STDLIB "multiprocessing/queues.py:113 < " FORKED)}, NULL}

TEST(processes_of_a_data_loader)
{
    static const struct row rows[] = {
        {"one sleeps in the user's dataset",
         {WAITING, IDLER, {NULL, {T('S', SYS_clock_nanosleep, "Pictures.__getitem__ /job/data.py:9 < " FORKED)}, NULL}},
         DT_DOING_CHILD, TRAIN, .object = "process 802 sleeps at /job/data.py:9"},
        {"one is gone", {WAITING, {NULL, {T('Z', NO_SYSCALL, NULL)}, "it has ended"}, IDLER},
         DT_DOING_CHILD, TRAIN, .object = "process 801 is gone"},
        {"a stopped one is worse than a slow one",
         {WAITING, {NULL, {T('S', SYS_clock_nanosleep, "Pictures.__getitem__ /job/data.py:9 < " FORKED)}, NULL},
          {NULL, {T('T', SYS_poll, "Queue.get " STDLIB "multiprocessing/queues.py:113 < " FORKED)}, NULL}},
         DT_DOING_CHILD, TRAIN, .object = "process 802 is stopped"},
        {"one waits for the disk",
         {WAITING, {NULL, {FOR('D', SYS_read, "Pictures.__getitem__ /job/data.py:9 < " FORKED, DT_WAITING_FILE, "/data/a.bin")}, NULL}},
         DT_DOING_CHILD, TRAIN, .object = "process 801: D state in /data/a.bin at /job/data.py:9"},
        {"one sleeps in what the user has handed over", {WAITING, IDLER, {NULL, {T('S', SYS_clock_nanosleep, "worker " STDLIB "multiprocessing/pool.py:125 < "
          "BaseProcess._bootstrap " STDLIB "multiprocessing/process.py:314" MODULE)}, NULL}},
         DT_DOING_CHILD, TRAIN, .object = "process 802 sleeps"},
        {"all of them wait", {WAITING, IDLER, IDLER}, DT_DOING_CHILD, TRAIN, .object = "all of them wait for work"},
        {"a loader without processes is the worker itself",
         ONE('S', SYS_clock_nanosleep, "Pictures.__getitem__ /job/data.py:9 < fetch " TORCH "utils/data/_utils/fetch.py:51 < "
             "_next_data " LOADER ":671" MODULE), DT_DOING_SLEEP, .where = "/job/data.py:9", .function = "Pictures.__getitem__"},
        {"a compiler runs", {{NULL, {T('S', SYS_wait4, "Popen.wait " STDLIB "subprocess.py:1264" MODULE)}, NULL},
          {"ninja", {NAMED('S', SYS_ppoll, "ninja")}, NULL}, {"cc1plus", {NAMED('R', NO_SYSCALL, "cc1plus")}, NULL}},
         DT_DOING_COMPILE, TRAIN, .object = "process 801 (ninja) waits in ppoll"},
        {"a program that does not come to its start",
         {{NULL, {T('D', SYS_clone3, "<module> /job/train.py:30")}, NULL}, {NULL, {T('S', SYS_openat, NULL)}, NULL}},
         DT_DOING_CHILD, TRAIN, .object = "process 801 waits in openat"},
        {"a shell has started it", {{"bash", {NAMED('S', SYS_wait4, "bash")}, NULL},
          {NULL, {T('S', SYS_clock_nanosleep, "<module> /job/train.py:30")}, NULL}}, DT_DOING_SLEEP, TRAIN},
    };
    CHECK_ROWS(rows, NULL);
}

TEST(threads)
{
    static const struct row rows[] = {
        {"the main thread joins another, which tells",
         {{NULL, {T('S', SYS_futex, "Thread._wait_for_tstate_lock " STDLIB "threading.py:1132 < Thread.join " STDLIB "threading.py:1112" MODULE),
                  NAMED('S', SYS_futex, "pt_gloo"),
                  T('S', SYS_clock_nanosleep, "work /job/train.py:8 < Thread.run " STDLIB "threading.py:975")}, NULL}},
         DT_DOING_SLEEP, .where = "/job/train.py:8", .function = "work", .detail = "in thread 802, for which the main thread waits"},
        {"there is nothing of the user's in any other",
         {{NULL, {T('S', SYS_futex, "Thread.join " STDLIB "threading.py:1112" MODULE),
                  T('S', SYS_futex, "Queue.get " STDLIB "queue.py:171 < Thread.run " STDLIB "threading.py:975")}, NULL}},
         DT_DOING_LOCK, TRAIN},
        {"a thread beside does not matter",
         {{NULL, {T('R', NO_SYSCALL, "<module> /job/train.py:30"),
                  T('S', SYS_clock_nanosleep, "beat /job/beat.py:8")}, NULL}}, DT_DOING_COMPUTE, TRAIN},
        {"a function of autograd in its own thread",
         {{NULL, {T('S', SYS_futex, "backward " TORCH "autograd/__init__.py:197" MODULE),
                  T('S', SYS_clock_nanosleep, "backward /job/ops.py:4 < apply " TORCH "autograd/function.py:267")}, NULL}},
         DT_DOING_SLEEP, .where = "/job/ops.py:4", .function = "backward", .detail = "in thread 801, for which the main thread waits"},
        {"where CUDA is, computing may be waiting",
         {{NULL, {T('R', NO_SYSCALL, "<module> /job/train.py:30"), NAMED('S', SYS_poll, "cuda-EvtHandlr")}, NULL}},
         DT_DOING_COMPUTE, TRAIN, .detail = "or waits for the GPU, which looks the same"},
    };
    CHECK_ROWS(rows, NULL);
}
/* clang-format on */

/* CPython before 3.11, where the C library does not tell either. */
TEST(stacks_without_a_number_have_the_main_one_last)
{
    static const struct process worker[PROCESSES] = {
        {NULL,
         {T('S', SYS_clock_nanosleep, "beat /job/beat.py:8"),
          T('S', SYS_clock_nanosleep, "load /job/data.py:5")},
         NULL}};
    struct dt_stance s;
    struct dt_look look = write_look(worker);
    at.stacks[0][0].native_id = at.stacks[0][1].native_id = 0;
    dt_posture_of(&look, NULL, &s);
    CHECK_EQ(s.doing, DT_DOING_SLEEP);
    CHECK_STR(s.where, "/job/data.py:5");
}

TEST(who_holds_the_lock_of_all_python_tells)
{
    static const struct process worker[PROCESSES] = {
        {NULL,
         {FOR('S', SYS_futex, "<module> /job/train.py:30", DT_WAITING_CONDITION, NULL),
          T('S', SYS_clock_nanosleep,
            "work /job/train.py:8 < Thread.run " STDLIB "threading.py:975")},
         NULL}};
    struct dt_stance s;
    struct dt_look look = write_look(worker);
    at.tasks[0][0].waiting.briefly = true;
    dt_posture_of(&look, NULL, &s);
    CHECK_EQ(s.doing, DT_DOING_SLEEP);
    CHECK_STR(s.where, "/job/train.py:8");
    CHECK_STR(s.detail,
              "in thread 801, which most likely holds the GIL that the main thread wants");
    at.entries[0].process.len = 1; /* nobody else is there */
    dt_posture_of(&look, NULL, &s);
    CHECK_EQ(s.doing, DT_DOING_LOCK);
}

TEST(a_worker_that_collects_garbage_computes_for_python)
{
    static const struct process worker[PROCESSES] = {
        {NULL, {T('R', NO_SYSCALL, "<module> /job/train.py:30")}, NULL}};
    struct dt_stance s;
    struct dt_look look = write_look(worker);
    at.entries[0].stacks.collecting = true;
    dt_posture_of(&look, NULL, &s);
    CHECK_EQ(s.doing, DT_DOING_COLLECT);
    at.tasks[0][0].state = 'S'; /* a finalizer of the user's may wait for anything */
    dt_posture_of(&look, NULL, &s);
    CHECK_EQ(s.doing, DT_DOING_WAIT);
}

TEST(what_is_no_python_has_its_page)
{
    static const struct dt_page_told page = {.seen = true, .step = 7, .section = "checkpoint"};
    static const struct row rows[] = {
        {"it computes",
         {{"dtrun-train", {NAMED('R', NO_SYSCALL, "dtrun-train")}, NULL}},
         DT_DOING_COMPUTE,
         .function = "section checkpoint"},
        {"it waits for the ranks of its host",
         {{"dtrun-train", {FOR('S', SYS_futex, NULL, DT_WAITING_MEMORY, NULL)}, NULL}},
         DT_DOING_WAIT,
         .function = "section checkpoint",
         .object = "memory that it shares with other processes"},
        {"it is stopped",
         {{"dtrun-train", {NAMED('T', SYS_write, "dtrun-train")}, NULL}},
         DT_DOING_STOPPED,
         .function = "section checkpoint",
         .detail = "by a signal"},
    };
    struct dt_stance s;
    CHECK_ROWS(rows, &page);
    struct dt_look look = write_look(rows[0].processes);
    dt_posture_of(&look, &page, &s);
    CHECK_EQ(s.step, 7);
    dt_posture_of(&look, NULL, &s);
    CHECK_EQ(s.step, -1);
    CHECK_STR(s.function, "");
    dt_posture_of(&(struct dt_look){0}, NULL, &s);
    CHECK_EQ(s.doing, DT_DOING_UNKNOWN);
}
