/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/failure/cause.h"

#include "base/signame.h"
#include "base/str.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>

#define COUNT(a) (sizeof(a) / sizeof *(a))
#define QUOTE_MAX 160
/* Lines of an exception's own message, which may name the reason only further down. */
#define MESSAGE_LINES 12

/* -- the tables ------------------------------------------------------------------------------- */

enum cause_class {
    USAGE,
    CONFIGURATION,
    NO_SCRIPT,
    NO_MODULE,
    IMPORT,
    SYNTAX,
    GPU_MEMORY,
    SHARED_MEMORY,
    HOST_MEMORY,
    DISK_FULL,
    PORT_TAKEN,
    VERSIONS,
    NO_GPU,
    GPU_BROKEN,
    GPU_FAULT,
    NCCL_USAGE,
    NCCL_FAILED,
    NOT_A_NUMBER,
    DATA_LOADER,
    BAD_CALL,
    EXCEPTION,
    TIMED_OUT,
    DISCONNECTED,
    ABORTED,
    CRASHED,
    HUNG,
    TIME_LIMIT,
    KILLED_FOR_MEMORY,
    BESIDE_MEMORY,
    TOLD_TO_END,
    KILLED,
    NO_PROGRAM,
    CHILD_KILLED,
    FAILED,
    EXITED,
};

static const struct class_row {
    const char *name;
    const char *words; /* behind "rank 3 " */
    enum dt_cause_strength strength;
    enum dt_retry retry;
    const char *advice; /* at the end; NULL: none */
} classes[] = {
/* clang-format off */
#define STRONG DT_CAUSE_STRONG
#define PLAIN  DT_CAUSE_PLAIN
#define WEAK   DT_CAUSE_WEAK
#define MAY    DT_RETRY_MAY_HELP
#define SELDOM DT_RETRY_SELDOM_HELPS
#define CANNOT DT_RETRY_CANNOT_HELP
    [USAGE]         = {"usage", "was given arguments that its script does not take", STRONG, CANNOT, NULL},
    [CONFIGURATION] = {"configuration", "was given a configuration that cannot be", STRONG, CANNOT, NULL},
    [NO_SCRIPT]     = {"no_script", "found no script to run", STRONG, CANNOT, NULL},
    [NO_MODULE]     = {"no_module", "did not find a module", STRONG, CANNOT, "install it for the interpreter that runs the workers"},
    [IMPORT]        = {"import", "could not import what it needs", STRONG, SELDOM, NULL},
    [SYNTAX]        = {"syntax", "met a mistake in the program's syntax", STRONG, SELDOM, NULL},
    [GPU_MEMORY]    = {"gpu_memory", "ran out of GPU memory", STRONG, SELDOM, "a smaller batch needs less of it; nvidia-smi shows who else has some"},
    [SHARED_MEMORY] = {"shared_memory", "ran out of shared memory", STRONG, SELDOM, "give its container a larger /dev/shm (--shm-size), or the data loader fewer processes"},
    [HOST_MEMORY]   = {"host_memory", "got no more memory from its host", STRONG, SELDOM, NULL},
    [DISK_FULL]     = {"disk_full", "met a full disk", STRONG, MAY, "free some space first"},
    [PORT_TAKEN]    = {"port_taken", "found its port taken", STRONG, MAY, "another job may use it, or one that has not ended"},
    [VERSIONS]      = {"versions", "met versions that do not fit each other", STRONG, SELDOM, NULL},
    [NO_GPU]        = {"no_gpu", "found no GPU that it could use", STRONG, SELDOM, NULL},
    [GPU_BROKEN]    = {"gpu_broken", "met a broken GPU", STRONG, MAY, "see dmesg for Xid, and drain this node"},
    [GPU_FAULT]     = {"gpu_fault", "made its GPU fail", STRONG, MAY, "with CUDA_LAUNCH_BLOCKING=1 the line is the right one"},
    [NCCL_USAGE]    = {"nccl_usage", "used NCCL in a way that it refuses", STRONG, SELDOM, NULL},
    [NCCL_FAILED]   = {"nccl", "met an error of NCCL", STRONG, MAY, "NCCL_DEBUG=INFO says more"},
    [NOT_A_NUMBER]  = {"not_a_number", "stopped because its numbers diverged", STRONG, SELDOM, NULL},
    [DATA_LOADER]   = {"data_loader", "lost a process of its data loader", STRONG, MAY, NULL},
    [BAD_CALL]      = {"exception", "raised an exception", STRONG, SELDOM, NULL},
    [EXCEPTION]     = {"exception", "raised an exception", PLAIN, MAY, NULL},
    [TIMED_OUT]     = {"timed_out", "waited in vain for another rank", WEAK, MAY, NULL},
    [DISCONNECTED]  = {"disconnected", "lost its connection to another process", WEAK, MAY, NULL},
    [ABORTED]       = {"aborted", "ended itself", PLAIN, MAY, NULL},
    [CRASHED]       = {"crashed", "crashed", STRONG, MAY, NULL},
    [HUNG]          = {"hung", "was ended, as the job stood still", STRONG, MAY, NULL},
    [TIME_LIMIT]    = {"time_limit", "was over a time limit that it had set itself", STRONG, MAY, NULL},
    [KILLED_FOR_MEMORY] = {"killed_for_memory", "was killed by the kernel, as it used too much memory", STRONG, MAY, NULL},
    [BESIDE_MEMORY] = {"beside_memory", "failed after the kernel had killed another process of its node, which used too much memory", PLAIN, MAY, NULL},
    [TOLD_TO_END]   = {"told_to_end", "was told to end by somebody outside of this job", PLAIN, MAY, "a scheduler that takes the machine back, or a person"},
    [KILLED]        = {"killed", "was killed by somebody outside of this job", PLAIN, MAY, NULL},
    [NO_PROGRAM]    = {"no_program", "found no program to run", STRONG, SELDOM, NULL},
    [CHILD_KILLED]  = {"child_killed", "lost a program that it had started", PLAIN, MAY, NULL},
    [FAILED]        = {"failed", "failed", PLAIN, MAY, NULL},
    [EXITED]        = {"exited", "ended without saying why", PLAIN, MAY, NULL},
    /* clang-format on */
};

/* A line that holds both WORDS, in this order, is of that class; where two rows fit, the first one
 * counts. What a worker sees of another's end comes last. */
static const struct text_row {
    enum cause_class class;
    const char *words[2];
    const char *elsewhere; /* has to stand in the text, too; NULL: nothing */
    int exit_code;         /* only with this one; 0: with any */
} texts[] = {
    /* clang-format off */
    {NO_SCRIPT,     {"can't open file ", "[Errno 2]"}, NULL, 2},
    {NO_SCRIPT,     {"can't find '__main__' module in "}, NULL, 1},
    {USAGE,         {": error: "}, "usage: ", 2},
    {USAGE,         {"Error: "}, "Usage: ", 2},
    {USAGE,         {"not used by the HfArgumentParser"}, NULL, 0},
    {NO_MODULE,     {"ModuleNotFoundError: No module named "}, NULL, 0},
    {NO_MODULE,     {"python", ": No module named "}, NULL, 1},
    {VERSIONS,      {"driver version is insufficient for CUDA runtime version"}, NULL, 0},
    {VERSIONS,      {"The NVIDIA driver on your system is too old"}, NULL, 0},
    {VERSIONS,      {"no kernel image is available for execution"}, NULL, 0},
    {VERSIONS,      {"forward compatibility was attempted on non supported HW"}, NULL, 0},
    {VERSIONS,      {"NCCL", "version mismatch"}, NULL, 0},
    {VERSIONS,      {"mismatched NCCL version"}, NULL, 0},
    {VERSIONS,      {"Driver/library version mismatch"}, NULL, 0},
    {VERSIONS,      {"version `", "' not found (required by "}, NULL, 0},
    {VERSIONS,      {"undefined symbol: "}, NULL, 0},
    {VERSIONS,      {"Message truncated : received "}, NULL, 0},
    {IMPORT,        {"ImportError: "}, NULL, 0},
    {IMPORT,        {"error while loading shared libraries: "}, NULL, 0},
    {SYNTAX,        {"SyntaxError: "}, NULL, 0},
    {SYNTAX,        {"IndentationError: "}, NULL, 0},
    {SYNTAX,        {"TabError: "}, NULL, 0},
    {SHARED_MEMORY, {"out of shared memory"}, NULL, 0},
    {SHARED_MEMORY, {"is killed by signal: Bus error"}, NULL, 0},
    {SHARED_MEMORY, {"Error while creating shared memory"}, NULL, 0},
    {SHARED_MEMORY, {"unable to mmap ", "torch_"}, NULL, 0},
    {SHARED_MEMORY, {"unable to open shared memory object"}, NULL, 0},
    {SHARED_MEMORY, {"No space left on device", "/dev/shm"}, NULL, 0},
    {SHARED_MEMORY, {"/dev/shm", "No space left on device"}, NULL, 0},
    {DISK_FULL,     {"No space left on device"}, NULL, 0},
    {DISK_FULL,     {"Disk quota exceeded"}, NULL, 0},
    {DISK_FULL,     {"inline_container.cc", "unexpected pos "}, NULL, 0},
    {GPU_MEMORY,    {"CUDA out of memory"}, NULL, 0},
    {GPU_MEMORY,    {"HIP out of memory"}, NULL, 0},
    {GPU_MEMORY,    {"CUDA error: out of memory"}, NULL, 0},
    {GPU_MEMORY,    {"CUDA failure", "out of memory"}, NULL, 0},
    {GPU_MEMORY,    {"OutOfMemoryError: "}, NULL, 0},
    {GPU_MEMORY,    {"CUBLAS_STATUS_ALLOC_FAILED"}, NULL, 0},
    {GPU_MEMORY,    {"GPU ", " has no room for "}, NULL, 0},
    {GPU_MEMORY,    {"CUDNN_STATUS_ALLOC_FAILED"}, NULL, 0},
    {HOST_MEMORY,   {"DefaultCPUAllocator: "}, NULL, 0},
    {HOST_MEMORY,   {"Cannot allocate memory"}, NULL, 0},
    {HOST_MEMORY,   {"no memory for "}, NULL, 0},
    {HOST_MEMORY,   {"std::bad_alloc"}, NULL, 0},
    {HOST_MEMORY,   {"MemoryError"}, NULL, 0},
    {PORT_TAKEN,    {"Address already in use"}, NULL, 0},
    {PORT_TAKEN,    {"EADDRINUSE"}, NULL, 0},
    {GPU_BROKEN,    {"uncorrectable ECC error"}, NULL, 0},
    {GPU_BROKEN,    {"fallen off the bus"}, NULL, 0},
    {GPU_BROKEN,    {"GPU is lost"}, NULL, 0},
    {GPU_BROKEN,    {"NVRM: Xid"}, NULL, 0},
    {GPU_BROKEN,    {"CUDA error: unknown error"}, NULL, 0},
    {GPU_BROKEN,    {"hardware stack error"}, NULL, 0},
    {GPU_BROKEN,    {"uncorrectable NVLink error"}, NULL, 0},
    {NO_GPU,        {"Found no NVIDIA driver"}, NULL, 0},
    {NO_GPU,        {"No CUDA GPUs are available"}, NULL, 0},
    {NO_GPU,        {"no CUDA-capable device is detected"}, NULL, 0},
    {NO_GPU,        {"CUDA error: invalid device ordinal"}, NULL, 0},
    {NO_GPU,        {"Torch not compiled with CUDA enabled"}, NULL, 0},
    {NO_GPU,        {"ProcessGroupNCCL is only supported with GPUs, no GPUs found"}, NULL, 0},
    {GPU_FAULT,     {"device-side assert triggered"}, NULL, 0},
    {GPU_FAULT,     {"an illegal memory access was encountered"}, NULL, 0},
    {GPU_FAULT,     {"misaligned address"}, NULL, 0},
    {GPU_FAULT,     {"unspecified launch failure"}, NULL, 0},
    {GPU_FAULT,     {"CUDA error: "}, NULL, 0},
    {NCCL_USAGE,    {"Duplicate GPU detected"}, NULL, 0},
    {NCCL_USAGE,    {"ncclInvalidUsage"}, NULL, 0},
    {NCCL_USAGE,    {"ncclInvalidArgument"}, NULL, 0},
    {NOT_A_NUMBER,  {"oss is nan"}, NULL, 0},
    {NOT_A_NUMBER,  {"oss is NaN"}, NULL, 0},
    {NOT_A_NUMBER,  {"oss is inf"}, NULL, 0},
    {NOT_A_NUMBER,  {"oss became infinite or NaN"}, NULL, 0},
    {NOT_A_NUMBER,  {"returned nan values in its "}, NULL, 0},
    {NOT_A_NUMBER,  {"oss diverged"}, NULL, 0},
    {NOT_A_NUMBER,  {"FloatingPointError: "}, NULL, 0},
    {DATA_LOADER,   {"DataLoader worker (pid", "killed by signal"}, NULL, 0},
    {DATA_LOADER,   {"DataLoader worker (pid", "exited unexpectedly"}, NULL, 0},
    {TIMED_OUT,     {"collective operation timeout"}, NULL, 0},
    {TIMED_OUT,     {"watchdog got stuck"}, NULL, 0},
    {TIMED_OUT,     {"Timed out waiting "}, NULL, 0},
    {TIMED_OUT,     {"Application timeout caused pair closure"}, NULL, 0},
    {TIMED_OUT,     {"failed to pass monitoredBarrier"}, NULL, 0},
    {TIMED_OUT,     {"Socket Timeout"}, NULL, 0},
    {TIMED_OUT,     {"wait timeout after "}, NULL, 0},
    {TIMED_OUT,     {"client socket has timed out after "}, NULL, 0},
    {TIMED_OUT,     {"imed out after ", " waiting for clients"}, NULL, 0},
    {TIMED_OUT,     {"DistStoreError: "}, NULL, 0},
    {TIMED_OUT,     {"TimeoutError: "}, NULL, 0},
    {DISCONNECTED,  {"Connection reset by peer"}, NULL, 0},
    {DISCONNECTED,  {"Connection closed by "}, NULL, 0},
    {DISCONNECTED,  {"Connection refused"}, NULL, 0},
    {DISCONNECTED,  {"Broken pipe"}, NULL, 0},
    {DISCONNECTED,  {"ConnectionResetError: "}, NULL, 0},
    {DISCONNECTED,  {"ConnectionRefusedError: "}, NULL, 0},
    {DISCONNECTED,  {"ConnectionAbortedError: "}, NULL, 0},
    {DISCONNECTED,  {"BrokenPipeError: "}, NULL, 0},
    {DISCONNECTED,  {"Failed to recv, got 0 bytes"}, NULL, 0},
    {DISCONNECTED,  {"failed to recv, got 0 bytes"}, NULL, 0},
    {DISCONNECTED,  {"ncclRemoteError"}, NULL, 0},
    {DISCONNECTED,  {"communicator was aborted"}, NULL, 0},
    {DISCONNECTED,  {"DistNetworkError: "}, NULL, 0},
    {DISCONNECTED,  {"(pid ", ") is gone"}, NULL, 0}, /* libdtrun, of a rank on its host */
    {NCCL_FAILED,   {"ncclSystemError"}, NULL, 0},
    {NCCL_FAILED,   {"ncclInternalError"}, NULL, 0},
    {NCCL_FAILED,   {"ncclUnhandledCudaError"}, NULL, 0},
    {NCCL_FAILED,   {"NCCL error"}, NULL, 0},
    /* clang-format on */
};

/* Exceptions of the program itself: the same call fails in the same way again. A file that is not
 * there may be on a slow network. */
static const char *const bad_calls[] = {
    "TypeError",  "NameError",         "UnboundLocalError", "AttributeError",      "KeyError",
    "IndexError", "ZeroDivisionError", "AssertionError",    "NotImplementedError", "ValueError",
};

/* A RuntimeError is anything in PyTorch; one with these words is such a mistake. */
static const char *const bad_shapes[] = {
    "shapes cannot be multiplied",    "size mismatch for ",
    "must match the size of tensor ", "Expected all tensors to be on the same device",
    "does not require grad",
};

/* -- what a line says ------------------------------------------------------------------------- */

static bool holds(struct dt_bytes b, const char *words)
{
    return memmem(b.at, b.len, words, strlen(words)) != NULL;
}

/* A warning is of something that was overcome. */
static bool is_warning(struct dt_bytes line)
{
    bool of_torch = line.len > 2 && line.at[0] == '[' && line.at[1] == 'W' &&
                    (line.at[2] == ' ' || (line.at[2] >= '0' && line.at[2] <= '9'));
    return of_torch || holds(line, "Warning: ") || holds(line, "WARNING");
}

static bool fits(const struct text_row *row, struct dt_bytes line)
{
    const uint8_t *at = memmem(line.at, line.len, row->words[0], strlen(row->words[0]));
    if (!at)
        return false;
    struct dt_bytes behind = {at, line.len - (size_t)(at - line.at)};
    return !row->words[1] || holds(behind, row->words[1]);
}

/* What a row asks of all the text is looked at once, so that lines cost what they are long. */
static bool may_fit(const struct text_row *row, const struct dt_cause_facts *f)
{
    return (!row->exit_code || row->exit_code == f->exit_code) &&
           (!row->elsewhere || holds(f->last_said, row->elsewhere));
}

struct match {
    const struct text_row *row; /* NULL: nothing matches */
    struct dt_bytes line;
};

/* The first row that fits any of the first MOST lines of TEXT, and the last line that it fits. Each
 * line is searched once for each row: the time is that of the text times a constant. */
static struct match look_at_lines(struct dt_bytes text, size_t most, const struct dt_cause_facts *f)
{
    struct match best = {0};
    bool usable[COUNT(texts)];
    size_t rows = COUNT(texts);
    for (size_t i = 0; i < rows; i++)
        usable[i] = may_fit(&texts[i], f);
    for (size_t n = 0; text.len && n < most; n++) {
        struct dt_bytes line = dt_traceback_bare(dt_traceback_line(&text));
        if (is_warning(line))
            continue;
        for (size_t i = 0; i < rows; i++) {
            if (!usable[i] || !fits(&texts[i], line))
                continue;
            best = (struct match){&texts[i], line};
            rows = i + 1; /* the same row may fit a later line; a later row counts no more */
            break;
        }
    }
    return best;
}

/* "torch.cuda.OutOfMemoryError" of "torch.cuda.OutOfMemoryError: text", and what it ends with. */
static bool is_of_type(struct dt_bytes exception, const char *type)
{
    const uint8_t *colon = memchr(exception.at, ':', exception.len);
    size_t len = colon ? (size_t)(colon - exception.at) : exception.len, n = strlen(type);
    return len >= n && memcmp(exception.at + len - n, type, n) == 0 &&
           (len == n || exception.at[len - n - 1] == '.');
}

static enum cause_class class_of_exception(struct dt_bytes exception)
{
    for (size_t i = 0; i < COUNT(bad_calls); i++)
        if (is_of_type(exception, bad_calls[i]))
            return BAD_CALL;
    for (size_t i = 0; i < COUNT(bad_shapes); i++)
        if (holds(exception, bad_shapes[i]))
            return BAD_CALL;
    return EXCEPTION;
}

/* Whose first line seldom says it all: what C++ throws. */
static bool is_wrapper(struct dt_bytes exception)
{
    return is_of_type(exception, "RuntimeError") || is_of_type(exception, "DistBackendError") ||
           is_of_type(exception, "AcceleratorError");
}

/* -- a cause ---------------------------------------------------------------------------------- */

static struct dt_bytes trimmed(struct dt_bytes b)
{
    while (b.len && (b.at[b.len - 1] == ' ' || b.at[b.len - 1] == '\r'))
        b.len--;
    while (b.len && *b.at == ' ') {
        b.at++;
        b.len--;
    }
    return b;
}

static void append(struct dt_cause *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void append(struct dt_cause *c, const char *fmt, ...)
{
    size_t used = strlen(c->text);
    va_list args;
    va_start(args, fmt);
    vsnprintf(c->text + used, sizeof c->text - used, fmt, args);
    va_end(args);
}

static void set_class(struct dt_cause *c, enum cause_class class)
{
    const struct class_row *row = &classes[class];
    c->class = row->name;
    c->strength = row->strength;
    c->retry = row->retry;
    c->advice = row->advice;
    c->told = class != EXITED;
    append(c, "%s", row->words);
}

/* "... at PLACE: QUOTE" behind what is said so far. */
static void add_place(struct dt_cause *c, struct dt_bytes quote)
{
    char shown[QUOTE_MAX];
    quote = trimmed(quote);
    if (*c->place)
        append(c, " at %s", c->place);
    if (quote.len)
        append(c, ": %s", dt_str_printable(quote, shown, sizeof shown));
}

static bool find_in_traceback(const struct dt_cause_facts *f, struct dt_cause *c)
{
    struct dt_traceback t;
    if (!dt_traceback_read(f->last_said, &t))
        return false;
    struct match m = look_at_lines(t.exception, 1, f);
    if (is_wrapper(t.exception) && (!m.row || m.row->class == NCCL_FAILED)) {
        struct match more = look_at_lines(t.rest, MESSAGE_LINES, f);
        m = more.row ? more : m;
    }
    memcpy(c->place, t.place, sizeof c->place);
    set_class(c, m.row ? m.row->class : class_of_exception(t.exception));
    add_place(c, m.row ? m.line : t.exception);
    return true;
}

static bool find_in_text(const struct dt_cause_facts *f, struct dt_cause *c)
{
    struct match m = look_at_lines(f->last_said, SIZE_MAX, f);
    if (!m.row)
        return false;
    dt_traceback_place(f->last_said, c->place);
    set_class(c, m.row->class);
    add_place(c, m.line);
    return true;
}

/* What was found names the line itself, and who waits for whom. */
static bool find_hang(const struct dt_cause_facts *f, struct dt_cause *c)
{
    char shown[DT_CAUSE_TEXT];
    if (!*f->hung)
        return false;
    set_class(c, HUNG);
    append(c, ": %s", dt_str_printable(dt_bytes_of(f->hung), shown, sizeof shown));
    return true;
}

/* The limit is what a person changes. Of the kernel's witnesses its log alone says which process it
 * killed, and whether for want of the host's memory or a group's. */
static bool find_memory(const struct dt_cause_facts *f, struct dt_cause *c)
{
    char size[32];
    bool counted = f->oom && f->oom->kind != DT_OOM_NO;
    if (!counted && !f->kill)
        return false;
    bool of_group = f->kill ? f->kill->group : f->oom->limit >= 0;
    set_class(c, f->kill || f->oom->kind != DT_OOM_BESIDE ? KILLED_FOR_MEMORY : BESIDE_MEMORY);
    if (of_group && counted && f->oom->limit >= 0)
        append(c, " (its control group may use %s",
               dt_str_from_size((uint64_t)f->oom->limit, size, sizeof size));
    else
        append(c,
               of_group ? " (its control group was at its limit" : " (all of the host's was used");
    if (f->kill && f->kill->resident >= 0)
        append(c, "; it had %s itself",
               dt_str_from_size((uint64_t)f->kill->resident, size, sizeof size));
    append(c, ")");
    return true;
}

static bool is_crash(int signal)
{
    return signal == SIGSEGV || signal == SIGBUS || signal == SIGILL || signal == SIGFPE ||
           signal == SIGABRT || signal == SIGTRAP || signal == SIGSYS;
}

static void find_crash(const struct dt_cause_facts *f, struct dt_cause *c)
{
    char name[DT_SIGNAME_TEXT];
    set_class(c, f->signal == SIGABRT ? ABORTED : CRASHED);
    append(c, " (%s)", dt_signame_text(f->signal, name));
    dt_traceback_place(f->last_said, c->place);
    add_place(c, (struct dt_bytes){0});
    if (*f->core)
        append(c, "; its core: %s", f->core);
}

/* Who dies of a signal from outside has said nothing about it. */
static void find_by_signal(const struct dt_cause_facts *f, struct dt_cause *c)
{
    char name[DT_SIGNAME_TEXT];
    bool speaks = f->signal == SIGABRT || f->signal == SIGBUS;
    if (f->ours) {
        set_class(c, TIME_LIMIT);
    } else if (!is_crash(f->signal)) {
        set_class(c, f->signal == SIGKILL ? KILLED : TOLD_TO_END);
        append(c, " (%s)", dt_signame_text(f->signal, name));
    } else if (!speaks || (!find_in_traceback(f, c) && !find_in_text(f, c))) {
        find_crash(f, c);
    }
}

/* The sentence that a program leaves in its error file, as libdtrun's do, without the rank that is
 * said anyway. By an old custom a status of 2 is of what a person has written. */
static bool find_in_sentence(const struct dt_cause_facts *f, struct dt_cause *c)
{
    struct dt_bytes rest = f->last_said, line;
    char text[QUOTE_MAX + 32];
    int rank, used = 0;
    if (!f->of_file || !rest.len)
        return false;
    line = trimmed(dt_traceback_line(&rest));
    if (!line.len)
        return false;
    snprintf(text, sizeof text, "%.*s", (int)(line.len < sizeof text ? line.len : sizeof text - 1),
             (const char *)line.at);
    if (sscanf(text, "rank %9d: %n", &rank, &used) == 1 && used > 0 && (size_t)used < line.len) {
        line.at += used;
        line.len -= (size_t)used;
    }
    set_class(c, f->exit_code == 2 ? CONFIGURATION : FAILED);
    add_place(c, line);
    return true;
}

/* Shells have numbers for what they could not run, or what was killed below them. */
static void find_by_status(const struct dt_cause_facts *f, struct dt_cause *c)
{
    const char *name = f->exit_code > 128 ? dt_signame(f->exit_code - 128) : NULL;
    bool missing = f->exit_code == 126 || f->exit_code == 127;
    set_class(c, missing ? NO_PROGRAM : name ? CHILD_KILLED : EXITED);
    append(c, " (exit status %d%s%s)", f->exit_code, name ? ": " : "", name ? name : "");
}

static void find_by_words(const struct dt_cause_facts *f, struct dt_cause *c)
{
    if (f->signal) {
        find_by_signal(f, c);
    } else if (!find_in_traceback(f, c) && !find_in_text(f, c)) {
        if (*f->full_disk) {
            set_class(c, DISK_FULL);
            add_place(c, dt_bytes_of(f->full_disk));
        } else if (!find_in_sentence(f, c)) {
            find_by_status(f, c);
        }
    }
}

/* Whether the worker met an error of its GPU, by its own words. */
static bool is_of_gpu(const struct dt_cause *c)
{
    return c->class == classes[GPU_BROKEN].name || c->class == classes[GPU_FAULT].name ||
           c->class == classes[NCCL_FAILED].name;
}

/* Whether what the driver says tells more than the words of C. Of nobody's process it does only
 * where the worker met such an error, too: other jobs may have GPUs of this host. */
static bool replaces(const struct dt_kernel_record *xid, const struct dt_cause *c)
{
    bool vague = c->strength != DT_CAUSE_STRONG || c->class == classes[NCCL_FAILED].name ||
                 c->class == classes[CRASHED].name;
    if (xid->event == DT_KERNEL_GPU_BROKEN && is_of_gpu(c))
        return true;
    return xid->pid != 0 && vague && xid->event != DT_KERNEL_GPU_TOLD;
}

static void join_xid(const struct dt_cause_facts *f, struct dt_cause *c)
{
    const struct dt_kernel_record *xid = f->xid;
    if (!xid || (xid->pid == 0 && !is_of_gpu(c) && c->strength != DT_CAUSE_WEAK))
        return;
    if (replaces(xid, c)) {
        *c->text = '\0';
        set_class(c, xid->event == DT_KERNEL_GPU_BROKEN ? GPU_BROKEN : GPU_FAULT);
        add_place(c, dt_bytes_of(xid->text));
    } else {
        append(c, "; the kernel's log says: %s", xid->text);
    }
}

void dt_cause_find(const struct dt_cause_facts *facts, struct dt_cause *out)
{
    struct dt_cause_facts f = *facts;
    if (f.last_said.len > DT_CAUSE_LOOKED_AT) {
        f.last_said.at += f.last_said.len - DT_CAUSE_LOOKED_AT;
        f.last_said.len = DT_CAUSE_LOOKED_AT;
    }
    *out = (struct dt_cause){0};
    if (find_hang(&f, out) || find_memory(&f, out))
        return;
    find_by_words(&f, out);
    join_xid(&f, out);
}

static const char *retry_text(enum dt_retry r)
{
    static const char *const texts_of[DT_RETRIES] = {
        [DT_RETRY_MAY_HELP] = "may help",
        [DT_RETRY_SELDOM_HELPS] = "seldom helps",
        [DT_RETRY_CANNOT_HELP] = "cannot help",
    };
    return texts_of[r];
}

const char *dt_cause_sentence(const struct dt_cause *c, int rank, char out[DT_CAUSE_SENTENCE])
{
    snprintf(out, DT_CAUSE_SENTENCE, "rank %d %s; a retry %s%s%s", rank, c->text,
             retry_text(c->retry), c->advice ? "; " : "", c->advice ? c->advice : "");
    return out;
}
