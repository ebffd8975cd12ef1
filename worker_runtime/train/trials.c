/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_runtime/train/trials.h"

#include "base/json_write.h"
#include "worker_runtime/device/cuda_plugin.h"
#include "worker_runtime/device/trial.h"
#include "worker_runtime/job_env.h"
#include "worker_runtime/ops/ops.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    CPUS = -1,             /* in place of a GPU's number */
    PART_OF_FREE = 8,      /* of a GPU's memory is written to */
    MOST_OF_GPU = 1 << 30, /* bytes */
    MOST_OF_HOST = 256 << 20,
    MIB = 1 << 20,
    SECONDS = 9, /* for CUDA's libraries to load, and for the work */
    SECONDS_OF_EACH = 3,
};

struct trials {
    const struct dt_cuda_plugin *plugin; /* NULL: of the CPU */
    FILE *out;
    pthread_mutex_t lock; /* of what follows, and of OUT */
    pthread_cond_t ended;
    int left, ill;
};

/* What is tried: one device, and one thread. */
struct tried {
    struct trials *all;
    pthread_t thread;
    int number;
    struct dt_gpu_identity identity;
    struct dt_trial trial;
    struct dt_err err;
    bool runs, over; /* RUNS: there is a thread */
};

/* -- lines ------------------------------------------------------------------------------------ */

static void put_identity(struct dt_json_writer *w, const struct tried *t)
{
    dt_json_put_text(w, "device", t->number == CPUS ? "cpu" : "cuda");
    dt_json_put_int(w, "index", t->number == CPUS ? 0 : t->number);
    dt_json_put_text(w, "name", t->identity.name);
    if (*t->identity.uuid)
        dt_json_put_text(w, "uuid", t->identity.uuid);
    if (*t->identity.pci)
        dt_json_put_text(w, "pci", t->identity.pci);
}

static void put_figures(struct dt_json_writer *w, const struct dt_trial *t)
{
    dt_json_put_uint(w, "side", t->side);
    dt_json_put_uint(w, "flops", (uint64_t)t->flops);
    dt_json_put_uint(w, "memory", t->memory);
    dt_json_put_uint(w, "written", (uint64_t)t->written);
    dt_json_put_uint(w, "got", (uint64_t)t->got);
}

static void print_line(FILE *out, struct dt_buf *line)
{
    dt_buf_put_str(line, "\n");
    fputs(dt_buf_cstr(line), out);
    fflush(out);
    dt_buf_finish(line);
}

/* The caller has the lock. FIGURES, WHY: NULL, while the thread is at work on them. */
static void print(const struct tried *t, const char *state, const struct dt_trial *figures,
                  const char *why)
{
    struct dt_buf line = {0};
    struct dt_json_writer w = {.out = &line};
    dt_json_put_object(&w, NULL);
    put_identity(&w, t);
    dt_json_put_text(&w, "state", state);
    if (figures)
        put_figures(&w, figures);
    if (why)
        dt_json_put_text(&w, "why", why);
    dt_json_put_end(&w);
    print_line(t->all->out, &line);
}

static void print_absent(FILE *out, const struct dt_err *why)
{
    struct dt_buf line = {0};
    struct dt_json_writer w = {.out = &line};
    dt_json_put_object(&w, NULL);
    dt_json_put_text(&w, "device", "cuda");
    dt_json_put_text(&w, "state", "absent");
    dt_json_put_bool(&w, "installed", dt_cuda_plugin_installed());
    dt_json_put_text(&w, "why", why->text);
    dt_json_put_end(&w);
    print_line(out, &line);
}

/* -- one device ------------------------------------------------------------------------------- */

/* Nobody is to be waited for whose memory is about to become free. */
static bool does_not_wait(void *arg)
{
    (void)arg;
    return true;
}

static size_t memory_of_gpu(size_t free_bytes)
{
    size_t part = free_bytes / PART_OF_FREE;
    return part < MIB ? MIB : part < MOST_OF_GPU ? part : MOST_OF_GPU;
}

static struct dt_device *open_gpu(struct tried *t, struct dt_trial_limits *l)
{
    struct dt_gpu_memory memory;
    struct dt_device_wish w = {.kind = "cuda",
                               .local_rank = t->number,
                               .local_world = t->number + 1,
                               .elem = DT_BF16,
                               .round_over = does_not_wait};
    if (t->all->plugin->memory(t->number, &memory, &t->err) < 0)
        return NULL;
    l->memory = memory_of_gpu(memory.free);
    return t->all->plugin->open(&w, &t->err);
}

static struct dt_device *open_cpu(struct tried *t, struct dt_trial_limits *l)
{
    int threads;
    l->memory = MOST_OF_HOST;
    if (dt_job_env_threads(0, 1, &threads, &t->err) < 0)
        return NULL;
    return dt_device_open_cpu(threads, &t->err);
}

/* What has become of it, in one word. */
static const char *judge(struct tried *t)
{
    struct dt_trial_limits l = {
        .side = 4096, .product_time = DT_SECOND, .memory_time = 2 * DT_SECOND};
    struct dt_device *d = t->number == CPUS ? open_cpu(t, &l) : open_gpu(t, &l);
    if (!d)
        return "refused";
    int rc = dt_trial_run(d, &l, &t->trial, &t->err);
    dt_device_close(d);
    if (rc < 0)
        return t->err.code == DT_E_MEMORY ? "refused" : "failed";
    return *t->trial.wrong ? "wrong" : "well";
}

/* The caller has the lock. */
static void end(struct tried *t, const char *state)
{
    bool well = strcmp(state, "well") == 0;
    if (well)
        print(t, state, &t->trial, NULL);
    else
        print(t, state, NULL, *t->trial.wrong ? t->trial.wrong : t->err.text);
    t->over = true;
    t->all->ill += !well;
}

static void *try_device(void *arg)
{
    struct tried *t = arg;
    const char *state = judge(t);
    pthread_mutex_lock(&t->all->lock);
    end(t, state);
    t->all->left--;
    pthread_cond_signal(&t->all->ended);
    pthread_mutex_unlock(&t->all->lock);
    return NULL;
}

/* -- all of them ------------------------------------------------------------------------------ */

static int identify(struct tried *t)
{
    const char *name = t->number == CPUS ? dt_ops_cpu()->name : "unknown";
    snprintf(t->identity.name, sizeof t->identity.name, "%s %s", name,
             t->number == CPUS ? "CPU" : "GPU");
    return t->number == CPUS ? 0 : t->all->plugin->identify(t->number, &t->identity, &t->err);
}

/* A GPU that cannot even say what it is has failed; the others are tried all the same. */
static int begin(struct tried *t, struct dt_err *err)
{
    int known = identify(t), rc = 0;
    pthread_mutex_lock(&t->all->lock);
    if (known < 0) {
        end(t, "failed");
    } else {
        print(t, "trying", NULL, NULL);
        rc = pthread_create(&t->thread, NULL, try_device, t);
        t->runs = rc == 0;
        t->all->left += t->runs;
    }
    pthread_mutex_unlock(&t->all->lock);
    return rc == 0 ? 0 : dt_err_errno(err, DT_E_RUNTIME, rc, "no thread for a device");
}

int dt_trials_patience(int count)
{
    int most = DT_TRIALS_PATIENCE_MOST;
    return count <= (most - SECONDS) / SECONDS_OF_EACH ? SECONDS + count * SECONDS_OF_EACH : most;
}

/* Whether all are over in time. */
static bool wait_for_all(struct trials *all, int seconds)
{
    struct timespec until;
    int rc = 0;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += seconds;
    pthread_mutex_lock(&all->lock);
    while (all->left > 0 && rc != ETIMEDOUT)
        rc = pthread_cond_timedwait(&all->ended, &all->lock, &until);
    bool over = all->left == 0;
    pthread_mutex_unlock(&all->lock);
    return over;
}

/* A driver that does not answer a thread would not let the process end in order either. */
static void leave_silent(struct tried *tried, int count) __attribute__((noreturn));
static void leave_silent(struct tried *tried, int count)
{
    pthread_mutex_lock(&tried->all->lock);
    for (int i = 0; i < count; i++)
        if (!tried[i].over)
            print(&tried[i], "silent", NULL, NULL);
    _exit(1);
}

static int try_all(struct trials *all, int count, int seconds, struct dt_err *err)
{
    struct tried *tried = calloc((size_t)count, sizeof *tried);
    int rc = tried ? 0 : dt_err_set(err, DT_E_MEMORY, "no memory for %d devices", count);
    int begun = 0;
    for (; begun < count && rc == 0; begun += rc == 0) {
        tried[begun] = (struct tried){.all = all, .number = all->plugin ? begun : CPUS};
        rc = begin(&tried[begun], err);
    }
    if (!wait_for_all(all, seconds))
        leave_silent(tried, begun);
    for (int i = 0; i < begun; i++)
        if (tried[i].runs)
            pthread_join(tried[i].thread, NULL);
    free(tried);
    if (rc == 0 && all->ill > 0)
        rc = dt_err_set(err, DT_E_RUNTIME, "%d of %d device%s not well; the lines above say why",
                        all->ill, count, count == 1 ? " is" : "s are");
    return rc;
}

/* How many GPUs there are to try; 0 and *err: why none. */
static int count_gpus(const struct dt_cuda_plugin **plugin, struct dt_err *err)
{
    if (!dt_cuda_plugin_is_worth_loading(err) || !(*plugin = dt_cuda_plugin_load(err)))
        return 0;
    return (*plugin)->devices(err);
}

int dt_trials_run(const char *kind, int seconds, FILE *out, struct dt_err *err)
{
    struct trials all = {.out = out, .lock = PTHREAD_MUTEX_INITIALIZER};
    pthread_condattr_t monotonic;
    struct dt_err why = {0};
    int count = strcmp(kind, "cpu") == 0 ? 1 : count_gpus(&all.plugin, &why);
    if (count == 0) {
        print_absent(out, &why);
        return strcmp(kind, "auto") == 0 ? 0 : dt_err_set(err, DT_E_RUNTIME, "%s", why.text);
    }
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&all.ended, &monotonic);
    int rc = try_all(&all, count, seconds ? seconds : dt_trials_patience(count), err);
    pthread_cond_destroy(&all.ended);
    pthread_condattr_destroy(&monotonic);
    return rc;
}
