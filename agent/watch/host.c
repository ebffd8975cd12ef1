/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/watch/host.h"

#include "agent/watch/gpu_use.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <time.h>

#define EVERY_S 5
#define STALE (30 * DT_SECOND)
#define PATIENCE_NS 200000000 /* with a thread that may never answer */
#define FOLDERS_MAX 16
#define MIB (1 << 20)

struct dt_host_watch {
    pthread_t thread;
    char *folders[FOLDERS_MAX]; /* those below COUNT never change */
    char *devices;
    struct dt_telemetry_kept told; /* the owner's */
    pthread_mutex_t lock;          /* of all below */
    pthread_cond_t changed;
    size_t count;     /* grows by the owner alone */
    bool stop, hurry; /* hurry: there is something new to look at */
    struct dt_telemetry_kept found;
    dt_ms found_at;
};

/* -- disks ------------------------------------------------------------------------------------ */

const struct dt_disk *dt_disk_fullest(const struct dt_disk *disks, size_t count)
{
    const struct dt_disk *fullest = NULL;
    double least = 0;
    for (size_t i = 0; i < count; i++) {
        const struct dt_disk *d = &disks[i];
        int64_t little = dt_disk_little_mib(d->total_mib);
        double share = (double)d->free_mib / (little > 0 ? (double)little : 1);
        if (d->total_mib > 0 && (!fullest || share < least)) {
            least = share;
            fullest = d;
        }
    }
    return fullest;
}

int64_t dt_disk_mib(uint64_t blocks, uint64_t size)
{
    double mib = (double)blocks * ((double)size / MIB);
    return mib < (double)DT_MIB_MOST ? (int64_t)mib : DT_MIB_MOST;
}

/* Where the file system keeps space for root, a user has less than is free. */
static struct dt_disk look_at_disk(const char *folder)
{
    struct dt_disk d = {.folder = folder};
    struct statvfs fs;
    if (statvfs(folder, &fs) < 0 || fs.f_flag & ST_RDONLY)
        return d;
    d.free_mib = dt_disk_mib(fs.f_bavail, fs.f_frsize);
    d.total_mib = dt_disk_mib(fs.f_blocks - fs.f_bfree + fs.f_bavail, fs.f_frsize);
    return d;
}

static void look_at_disks(struct dt_host_watch *w, struct dt_telemetry *out)
{
    struct dt_disk disks[FOLDERS_MAX];
    pthread_mutex_lock(&w->lock);
    size_t count = w->count;
    pthread_mutex_unlock(&w->lock);
    for (size_t i = 0; i < count; i++)
        disks[i] = look_at_disk(w->folders[i]);
    const struct dt_disk *d = dt_disk_fullest(disks, count);
    if (!d)
        return;
    out->disk = d->folder;
    out->disk_free_mib = d->free_mib;
    out->disk_total_mib = d->total_mib;
}

/* -- the thread ------------------------------------------------------------------------------- */

/* False: W is to stop. */
static bool publish(struct dt_host_watch *w, const struct dt_telemetry *found)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += EVERY_S;
    pthread_mutex_lock(&w->lock);
    dt_telemetry_keep(&w->found, found);
    w->found_at = dt_clock_monotonic();
    while (!w->stop && !w->hurry &&
           pthread_cond_timedwait(&w->changed, &w->lock, &until) != ETIMEDOUT)
        ;
    bool stop = w->stop;
    w->hurry = false;
    pthread_mutex_unlock(&w->lock);
    return !stop;
}

/* Which cards there are does not change while it runs. */
static void find_gpus(const struct dt_host_watch *w, struct dt_gpus *visible)
{
    struct dt_gpus all = {0};
    if (dt_gpus_read(&all, NULL) == 0 && dt_gpus_select(&all, w->devices, visible, NULL) < 0)
        dt_gpus_finish(visible);
    dt_gpus_finish(&all);
}

static void *watch(void *arg)
{
    struct dt_host_watch *w = arg;
    struct dt_nvml nvml;
    struct dt_gpus visible = {0};
    struct dt_telemetry found;
    enum dt_nvml_opened how = dt_nvml_open(&nvml, NULL);
    if (how == DT_NVML_OPEN)
        find_gpus(w, &visible);
    do {
        found = (struct dt_telemetry){0};
        look_at_disks(w, &found);
        dt_gpu_use_read(&nvml, &visible, &found);
    } while (publish(w, &found));
    dt_gpus_finish(&visible);
    dt_nvml_close(&nvml, how);
    return NULL;
}

/* -- for the owner ---------------------------------------------------------------------------- */

static void destroy(struct dt_host_watch *w)
{
    for (size_t i = 0; i < w->count; i++)
        free(w->folders[i]);
    free(w->devices);
    pthread_mutex_destroy(&w->lock);
    pthread_cond_destroy(&w->changed);
    free(w);
}

static struct dt_host_watch *create(const char *const *folders, size_t count, const char *devices)
{
    struct dt_host_watch *w = calloc(1, sizeof *w);
    pthread_condattr_t monotonic;
    if (!w)
        return NULL;
    pthread_mutex_init(&w->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&w->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    bool copied = !devices || (w->devices = strdup(devices));
    for (; copied && w->count < count && w->count < FOLDERS_MAX; w->count += copied)
        copied = (w->folders[w->count] = strdup(folders[w->count])) != NULL;
    if (copied)
        return w;
    destroy(w);
    return NULL;
}

/* Signals are the main thread's. */
static int start_thread(struct dt_host_watch *w)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int rc = pthread_create(&w->thread, NULL, watch, w);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return rc;
}

struct dt_host_watch *dt_host_watch_open(const char *const *folders, size_t count,
                                         const char *devices, struct dt_err *err)
{
    struct dt_host_watch *w = create(folders, count, devices);
    int rc = w ? start_thread(w) : ENOMEM;
    if (rc == 0)
        return w;
    if (w)
        destroy(w);
    dt_err_errno(err, DT_E_RUNTIME, rc, "nobody watches the GPUs and disks of this host");
    return NULL;
}

static bool is_watched(const struct dt_host_watch *w, const char *folder)
{
    for (size_t i = 0; i < w->count; i++)
        if (strcmp(w->folders[i], folder) == 0)
            return true;
    return false;
}

/* Without memory it is tried again, as it is told again. */
void dt_host_watch_add(struct dt_host_watch *w, const char *folder)
{
    if (!*folder || w->count == FOLDERS_MAX || is_watched(w, folder))
        return;
    char *copy = strdup(folder);
    if (!copy)
        return;
    w->folders[w->count] = copy;
    pthread_mutex_lock(&w->lock);
    w->count++;
    w->hurry = true;
    pthread_cond_signal(&w->changed);
    pthread_mutex_unlock(&w->lock);
}

void dt_host_watch_tell(struct dt_host_watch *w, dt_ms now, struct dt_telemetry *out)
{
    static const struct dt_telemetry nothing;
    pthread_mutex_lock(&w->lock);
    dt_telemetry_keep(&w->told, now - w->found_at > STALE ? &nothing : &w->found.is);
    pthread_mutex_unlock(&w->lock);
    const struct dt_telemetry *t = &w->told.is;
    out->gpus = t->gpus;
    out->gpu_busy = t->gpu_busy;
    out->gpu_mem_mib = t->gpu_mem_mib;
    out->gpu_mem_total_mib = t->gpu_mem_total_mib;
    out->disk = t->disk;
    out->disk_free_mib = t->disk_free_mib;
    out->disk_total_mib = t->disk_total_mib;
}

/* A thread that does not end has all that it uses until the process is gone. */
void dt_host_watch_close(struct dt_host_watch *w)
{
    struct timespec until;
    if (!w)
        return;
    pthread_mutex_lock(&w->lock);
    w->stop = true;
    pthread_cond_signal(&w->changed);
    pthread_mutex_unlock(&w->lock);
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += PATIENCE_NS;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    if (pthread_timedjoin_np(w->thread, NULL, &until) == 0)
        destroy(w);
    else
        pthread_detach(w->thread);
}
