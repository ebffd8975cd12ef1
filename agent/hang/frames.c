/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/hang/frames.h"

#include <fnmatch.h>
#include <string.h>

#define ANY "*"
#define PUBLIC "[!_<]*"

#define ANYWHERE .place = DT_FRAME_ANYWHERE
#define INNERMOST .place = DT_FRAME_INNERMOST
#define OUTERMOST .place = DT_FRAME_OUTERMOST

#define GPU "waits for the GPU, most likely for a collective of NCCL"
#define GRADIENTS "most likely for the sum of gradients over all ranks"
#define BUILD "waits until another process has built the same; its lock file may be left over"

/* clang-format off */
static const struct dt_frame_row rows[] = {
    /* What Python runs at its exit. */
    {"*/threading.py", "_shutdown", OUTERMOST, .doing = DT_DOING_LEFT},
    {"*/multiprocessing/util.py", "_exit_function", OUTERMOST, .doing = DT_DOING_LEFT},
    {"*/concurrent/futures/*.py", "_python_exit", OUTERMOST, .doing = DT_DOING_LEFT},
    {"*/weakref.py", "_exitfunc", OUTERMOST, .doing = DT_DOING_LEFT},
    {"*/logging/__init__.py", "shutdown", OUTERMOST, .doing = DT_DOING_LEFT},

    /* Processes of its own. */
    {"*/torch/utils/data/dataloader.py", "_try_get_data", ANYWHERE, .doing = DT_DOING_CHILD},
    {"*/torch/utils/data/dataloader.py", "_shutdown_workers", ANYWHERE, .doing = DT_DOING_CHILD},
    {"*/torchdata/stateful_dataloader/*.py", "_try_get_data", ANYWHERE, .doing = DT_DOING_CHILD},
    {"*/multiprocessing/queues.py", "get", ANYWHERE, .doing = DT_DOING_CHILD},
    {"*/multiprocessing/pool.py", "wait", ANYWHERE, .doing = DT_DOING_CHILD},
    {"*/multiprocessing/popen_*.py", "wait", ANYWHERE, .doing = DT_DOING_CHILD},
    {"*/subprocess.py", "wait", ANYWHERE, .doing = DT_DOING_CHILD},
    {"*/subprocess.py", "communicate", ANYWHERE, .doing = DT_DOING_CHILD},

    /* Collectives, and what waits for all ranks in the same way. */
    {"*/torch/distributed/distributed_c10d.py", PUBLIC, ANYWHERE, .doing = DT_DOING_COLLECTIVE},
    {"*/torch/distributed/_functional_collectives.py", PUBLIC, ANYWHERE, .doing = DT_DOING_COLLECTIVE},
    {"*/torch/distributed/rpc/*.py", PUBLIC, ANYWHERE, .doing = DT_DOING_COLLECTIVE},
    {"*/torch/nn/parallel/distributed.py", "__init__", ANYWHERE, .doing = DT_DOING_COLLECTIVE,
     .collective = "DistributedDataParallel()"},
    {"*/torch/nn/parallel/distributed.py", "_sync_*", ANYWHERE, .doing = DT_DOING_COLLECTIVE,
     .collective = "broadcast", .detail = "of the buffers of DistributedDataParallel"},
    {"*/torch/nn/parallel/distributed.py", ANY, INNERMOST, .doing = DT_DOING_COLLECTIVE,
     .collective = "forward of DistributedDataParallel"},
    {"*/torch/distributed/fsdp/*.py", ANY, INNERMOST, .doing = DT_DOING_COLLECTIVE, .collective = "FSDP"},
    {"*/torch/distributed/tensor/*.py", ANY, INNERMOST, .doing = DT_DOING_COLLECTIVE, .collective = "DTensor"},
    {"*/torch/distributed/_tensor/*.py", ANY, INNERMOST, .doing = DT_DOING_COLLECTIVE, .collective = "DTensor"},
    {"*/torch/distributed/algorithms/*.py", ANY, INNERMOST, .doing = DT_DOING_COLLECTIVE},
    {"*/torch/autograd/__init__.py", ANY, INNERMOST, .doing = DT_DOING_COLLECTIVE, .collective = "backward",
     .detail = GRADIENTS, .joins = true},
    {"*/torch/autograd/graph.py", "_engine_run_backward", INNERMOST, .doing = DT_DOING_COLLECTIVE,
     .collective = "backward", .detail = GRADIENTS, .joins = true},
    {"*/horovod/*/mpi_ops.py", "synchronize", ANYWHERE, .doing = DT_DOING_COLLECTIVE},
    {"*/torch/cuda/__init__.py", "synchronize", ANYWHERE, .doing = DT_DOING_COLLECTIVE, .detail = GPU},
    {"*/torch/cuda/streams.py", "synchronize", ANYWHERE, .doing = DT_DOING_COLLECTIVE, .detail = GPU},

    {"*/torch/distributed/rendezvous.py", ANY, ANYWHERE, .doing = DT_DOING_STORE},

    /* What takes its time. */
    {"*/torch/_dynamo/convert_frame.py", ANY, ANYWHERE, .doing = DT_DOING_COMPILE},
    {"*/torch/_inductor/compile_fx.py", "*compile*", ANYWHERE, .doing = DT_DOING_COMPILE},
    {"*/torch/_inductor/async_compile.py", ANY, ANYWHERE, .doing = DT_DOING_COMPILE},
    {"*/torch/utils/file_baton.py", "wait", ANYWHERE, .doing = DT_DOING_COMPILE, .detail = BUILD},
    {"*/torch/utils/cpp_extension.py", "*ninja*", ANYWHERE, .doing = DT_DOING_COMPILE},
    {"*/triton/compiler/*.py", ANY, ANYWHERE, .doing = DT_DOING_COMPILE},
    {"*/triton/runtime/build.py", ANY, ANYWHERE, .doing = DT_DOING_COMPILE},
    {"*/torch/serialization.py", "save", ANYWHERE, .doing = DT_DOING_SAVE},
    {"*/torch/distributed/checkpoint/*.py", "*save*", ANYWHERE, .doing = DT_DOING_SAVE},
    {"*/safetensors/*.py", "save*", ANYWHERE, .doing = DT_DOING_SAVE},

    /* Other threads. */
    {"*/threading.py", "join", ANYWHERE, .doing = DT_DOING_LOCK, .joins = true},
    {"*/concurrent/futures/_base.py", "result", ANYWHERE, .doing = DT_DOING_LOCK, .joins = true},
    {"*/concurrent/futures/_base.py", "wait", ANYWHERE, .doing = DT_DOING_LOCK, .joins = true},
    {"*/threading.py", "wait", ANYWHERE, .doing = DT_DOING_LOCK},
    {"*/threading.py", "acquire", ANYWHERE, .doing = DT_DOING_LOCK},
    {"*/queue.py", "get", ANYWHERE, .doing = DT_DOING_LOCK},
    {"*/queue.py", "put", ANYWHERE, .doing = DT_DOING_LOCK},
    {"*/queue.py", "join", ANYWHERE, .doing = DT_DOING_LOCK},
};

/* Where a process of multiprocessing begins. */
static const struct dt_frame_row starts[] = {
    {"*/multiprocessing/process.py", "_bootstrap", .doing = DT_DOING_UNKNOWN},
    {"*/multiprocessing/resource_tracker.py", "main", .doing = DT_DOING_UNKNOWN},
    {"*/multiprocessing/forkserver.py", "main", .doing = DT_DOING_UNKNOWN},
};

/* Python's own. */
static const char *const standard[] = {
    "*/lib/python[23].*/*", "*/lib64/python[23].*/*", "*/python3[0-9]*.zip/*",
};
/* Packages, which live inside of folders of Python's. */
static const char *const packages[] = {
    "*/site-packages/*", "*/dist-packages/*",
};
/* PyTorch, wherever it is, and the code that it writes. */
static const char *const torch[] = {
    "*-packages/torch/*", "*/pytorch/torch/*", "*/torchinductor_*/*",
};
/* clang-format on */

#define MATCHES(file, patterns) matches(file, patterns, sizeof patterns / sizeof *patterns)

static bool matches(const char *file, const char *const *patterns, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (fnmatch(patterns[i], file, 0) == 0)
            return true;
    return false;
}

/* Whose code it is; the user's own tells most. */
enum owner { USER, PACKAGE, TYPED, LIBRARY };

static enum owner owner_of(const char *file)
{
    if (strcmp(file, "<string>") == 0 || strcmp(file, "<stdin>") == 0)
        return TYPED;
    if (file[0] == '<' || MATCHES(file, torch))
        return LIBRARY;
    if (MATCHES(file, packages))
        return PACKAGE;
    return MATCHES(file, standard) ? LIBRARY : USER;
}

const char *dt_frame_name(const struct dt_python_frame *frame)
{
    const char *dot = strrchr(frame->function, '.');
    return dot ? dot + 1 : frame->function;
}

static bool is_row(const struct dt_python_frame *f, const struct dt_frame_row *row)
{
    return fnmatch(row->file, f->file, 0) == 0 && fnmatch(row->function, dt_frame_name(f), 0) == 0;
}

size_t dt_frames_own(const struct dt_python_frame *frames, size_t depth)
{
    for (size_t i = 0; i < depth; i++)
        for (size_t k = 0; k < sizeof starts / sizeof *starts; k++)
            if (is_row(&frames[i], &starts[k]))
                return i;
    return depth;
}

size_t dt_frames_user(const struct dt_python_frame *frames, size_t depth)
{
    for (enum owner who = USER; who < LIBRARY; who++)
        for (size_t i = 0; i < depth; i++)
            if (owner_of(frames[i].file) == who)
                return i;
    return depth;
}

static bool in_place(const struct dt_frame_row *row, size_t i, size_t depth, bool whole,
                     bool asleep)
{
    switch (row->place) {
    case DT_FRAME_ANYWHERE:
        return true;
    case DT_FRAME_INNERMOST:
        return i == 0 && asleep;
    case DT_FRAME_OUTERMOST:
        return i + 1 == depth && whole;
    }
    return false;
}

const struct dt_frame_row *dt_frames_meaning(const struct dt_python_frame *frames, size_t depth,
                                             size_t user, bool whole, bool asleep, size_t *at)
{
    const struct dt_frame_row *best = NULL;
    for (size_t i = user; i-- > 0;) {
        for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
            if (best && rows[k].doing >= best->doing)
                continue;
            if (!in_place(&rows[k], i, depth, whole, asleep) || !is_row(&frames[i], &rows[k]))
                continue;
            best = &rows[k];
            *at = i;
        }
    }
    return best;
}
