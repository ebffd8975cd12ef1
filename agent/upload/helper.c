/* SPDX-License-Identifier: Apache-2.0 */
/* One thread scans and uploads; another hears the agent, and calls an upload off when its time is
 * over. */
#include "agent/upload/helper.h"

#include "agent/upload/scan.h"
#include "agent/upload/wire.h"
#include "base/auto.h"
#include "base/fs.h"
#include "base/log.h"
#include "base/str.h"
#include "base/upload/depot.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define SCAN_RARELY (2 * DT_SECOND)
#define SCAN_OFTEN (DT_SECOND / 10)
#define NICE 10
#define CLOCKS_DIFFER_US 5000000 /* between this host and a store */
#define COMPARED_MOST (1 << 20)

struct folder {
    const struct dt_plan_upload *plan;
    struct dt_follow follow;
    struct dt_depot *depot; /* NULL: not open yet */
    bool broken;            /* it could not be looked into, and that was said */
    bool places_told;       /* it was looked at whether other nodes have such a one, too */
    bool ended;             /* it was looked into since the workers are gone */
    dt_ms waits_since;      /* as in wire.h */
};

struct helper {
    const struct dt_plan *plan;
    int sock;
    struct folder *folders;
    dt_ms told_waits_since;
    /* From the thread that hears the agent. */
    int wake;
    atomic_bool first, cut_off, ending, stop;
};

/* -- the agent -------------------------------------------------------------------------------- */

static dt_ms waits_since(const struct helper *h)
{
    dt_ms longest = 0;
    for (size_t i = 0; i < h->plan->upload_count; i++) {
        dt_ms since = h->folders[i].waits_since;
        if (since && (longest == 0 || since < longest))
            longest = since;
    }
    return longest;
}

static void send_news(const struct helper *h, const struct dt_upload_news *n)
{
    while (send(h->sock, n, sizeof *n, MSG_NOSIGNAL) < 0 && errno == EINTR)
        ;
}

/* Before what may take long, and where it changed. */
static void tell_waits(struct helper *h)
{
    dt_ms since = waits_since(h);
    if (since == h->told_waits_since)
        return;
    h->told_waits_since = since;
    send_news(h, &(struct dt_upload_news){.level = DT_LOG_INFO, .waits_since = since});
}

__attribute__((format(printf, 3, 4))) static void
tell(const struct helper *h, enum dt_log_level level, const char *fmt, ...)
{
    struct dt_upload_news n = {.level = level, .waits_since = h->told_waits_since};
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(n.text, sizeof n.text, fmt, ap);
    va_end(ap);
    send_news(h, &n);
}

static void wake(struct helper *h)
{
    eventfd_write(h->wake, 1);
}

/* False: the agent is gone. */
static bool hear(struct helper *h, dt_ms *until)
{
    struct dt_upload_order o;
    ssize_t n = recv(h->sock, &o, sizeof o, 0);
    if (n < 0 && errno == EINTR)
        return true;
    if (n != sizeof o)
        return false;
    if (o.kind == DT_UPLOAD_FIRST) {
        atomic_store(&h->first, o.value != 0);
    } else {
        dt_ms end = dt_clock_after(dt_clock_monotonic(), o.value);
        *until = end < *until ? end : *until;
        if (o.cut_off)
            atomic_store(&h->cut_off, true);
        atomic_store(&h->ending, true);
    }
    wake(h);
    return true;
}

static int time_left(dt_ms until)
{
    dt_ms left = until - dt_clock_monotonic();
    if (until == DT_FOREVER)
        return -1;
    return left <= 0 ? 0 : left > INT_MAX ? INT_MAX : (int)left;
}

static void *hear_agent(void *arg)
{
    struct helper *h = arg;
    dt_ms until = DT_FOREVER;
    for (;;) {
        struct pollfd p = {.fd = h->sock, .events = POLLIN};
        int n = poll(&p, 1, time_left(until));
        if (n == 0 || (n > 0 && !hear(h, &until)))
            break;
    }
    atomic_store(&h->stop, true);
    wake(h);
    return NULL;
}

/* -- an entry --------------------------------------------------------------------------------- */

struct stretch {
    const struct dt_follow_file *at;
    size_t count;
};

/* The files of an entry. */
static struct stretch files_of(const struct dt_follow_scan *s, const char *entry)
{
    struct stretch out = {0};
    size_t len = strlen(entry);
    for (size_t i = 0; i < s->count; i++) {
        const char *path = s->at[i].path;
        if (dt_follow_entry_length(path) != len || strncmp(path, entry, len) != 0)
            continue;
        out.at = out.count++ ? out.at : &s->at[i];
    }
    return out;
}

static const char *path_of(const struct folder *f, const struct dt_follow_file *file,
                           char out[PATH_MAX])
{
    snprintf(out, PATH_MAX, "%.*s/%s", PATH_MAX / 2, f->plan->dir, file->path);
    return out;
}

static bool is_written(const struct folder *f, struct stretch files)
{
    char path[PATH_MAX];
    for (size_t i = 0; i < files.count; i++)
        if (dt_scan_is_written(path_of(f, &files.at[i], path)))
            return true;
    return false;
}

static int open_depot(struct helper *h, struct folder *f, struct dt_err *err)
{
    struct dt_depot_options o = {
        .url = f->plan->url, .command = h->plan->upload_cmd, .stop = &h->stop};
    if (!f->depot)
        f->depot = dt_depot_open(&o, err);
    return f->depot ? 0 : -1;
}

/* Byte for byte: such files say which checkpoint is the newest, and are often of one size. */
static bool is_equal(const struct folder *f, const struct dt_follow_file *file)
{
    char path[PATH_MAX];
    struct dt_buf here = {0}, there = {0};
    bool equal = dt_transfer_get_bytes(dt_depot_transfer(f->depot), file->path, COMPARED_MOST,
                                       &there, NULL) == 1 &&
                 dt_fs_read(path_of(f, file, path), COMPARED_MOST, &here, NULL) == 0 &&
                 here.len == there.len && memcmp(here.at, there.at, here.len) == 0;
    dt_buf_finish(&here);
    dt_buf_finish(&there);
    return equal;
}

/* A job that is started again finds what the one before has uploaded. Large files are not read for
 * that: they are taken for the same by their sizes and dates. */
static bool is_there(const struct folder *f, const struct dt_follow_file *file)
{
    struct dt_object there;
    struct dt_transfer *t = dt_depot_transfer(f->depot);
    if (!t || dt_transfer_head(t, file->path, &there, NULL) != 1 || there.size != file->bytes)
        return false;
    if (file->bytes > 0 && file->bytes <= COMPARED_MOST)
        return is_equal(f, file);
    return there.changed_us > file->written_ns / 1000 + CLOCKS_DIFFER_US;
}

/* Those of FILES that are to be put. */
static int gather(const struct folder *f, struct stretch files, bool anew,
                  struct dt_depot_batch *batch, struct dt_err *err)
{
    char path[PATH_MAX];
    for (size_t i = 0; i < files.count; i++) {
        if (!dt_url_is_file_key(files.at[i].path))
            return dt_err_set(err, DT_E_RUNTIME, "a file in it has a name that no copy can have");
        if (anew && is_there(f, &files.at[i]))
            continue;
        if (dt_depot_batch_add(batch, path_of(f, &files.at[i], path), files.at[i].path, NULL, err) <
            0)
            return -1;
    }
    return 0;
}

/* In whatever order is the fastest. */
static int put_some(struct folder *f, struct stretch files, bool anew, struct dt_err *err)
{
    struct dt_depot_batch batch = {0};
    int rc = gather(f, files, anew, &batch, err);
    if (rc == 0)
        rc = dt_depot_put_all(f->depot, &batch, err);
    dt_depot_batch_finish(&batch);
    return rc;
}

/* The file that was written last goes up alone, when all others are there: a program may say with
 * it that the entry is whole. */
static int put_files(struct folder *f, struct stretch files, bool anew, struct dt_err *err)
{
    if (files.count == 0)
        return 0;
    struct stretch before = {files.at, files.count - 1}, last = {files.at + before.count, 1};
    int rc = put_some(f, before, anew, err);
    return rc == 0 ? put_some(f, last, anew, err) : rc;
}

static void tell_sent(const struct helper *h, const struct folder *f, const char *name,
                      struct stretch files, dt_ms began)
{
    char size[32], took[32];
    uint64_t bytes = 0;
    for (size_t i = 0; i < files.count; i++)
        bytes += files.at[i].bytes;
    dt_str_from_size(bytes, size, sizeof size);
    dt_str_from_duration(dt_clock_monotonic() - began, took, sizeof took);
    tell(h, DT_LOG_INFO, "%s/%s is uploaded to %s: %zu file%s, %s, in %s", f->plan->dir, name,
         dt_depot_name(f->depot), files.count, files.count == 1 ? "" : "s", size, took);
}

/* Whether it was uploaded. */
static bool upload(struct helper *h, struct folder *f, struct dt_follow_entry *e,
                   const struct dt_follow_scan *scan)
{
    struct stretch files = files_of(scan, e->name);
    struct dt_err why = {0};
    dt_ms began = dt_clock_monotonic();
    if (is_written(f, files)) {
        dt_follow_busy(e, began);
        return false;
    }
    if (open_depot(h, f, &why) == 0 && put_files(f, files, e->sent == 0, &why) == 0) {
        dt_follow_sent(e, e->mark);
        tell_sent(h, f, e->name, files, began);
        return true;
    }
    if (atomic_load(&h->stop))
        return false; /* it did not fail of itself, and is told of with the rest */
    dt_follow_failed(e, dt_clock_monotonic());
    tell(h, DT_LOG_WARN, "%s/%s is not uploaded%s%s: %s; it is safe where it is, and tried again%s",
         f->plan->dir, e->name, f->plan->url ? " to " : "", f->plan->url ? f->plan->url : "",
         why.text, atomic_load(&h->ending) ? " by the next job" : "");
    return false;
}

/* -- folders ---------------------------------------------------------------------------------- */

static void say_broken(const struct helper *h, struct folder *f, const struct dt_err *why)
{
    if (!f->broken)
        tell(h, DT_LOG_WARN, "--upload: %s", why->text);
    f->broken = true;
}

/* Once, by one node: copies of what other nodes have in theirs get the same names. A command may
 * know better. */
static void warn_of_places(const struct helper *h, struct folder *f)
{
    if (f->places_told || !atomic_load(&h->first))
        return;
    f->places_told = true;
    if (dt_plan_has_others(h->plan) && !h->plan->upload_cmd && !dt_scan_is_shared(f->plan->dir))
        tell(h, DT_LOG_WARN,
             "--upload: %s is on a disk of this host, and each node uploads its own to %s, where "
             "files of the same name replace each other; give each node a URL of its own, or save "
             "under names that differ",
             f->plan->dir, f->plan->url);
}

static int see(struct helper *h, struct folder *f, const struct dt_follow_scan *scan, dt_ms now,
               bool ending, struct dt_err *err)
{
    if (dt_follow_see(&f->follow, scan, now, err) < 0)
        return -1;
    if (ending && !f->ended && atomic_load(&h->cut_off))
        dt_follow_hold(&f->follow, now, h->plan->upload_after);
    f->ended = ending;
    return 0;
}

static void note_waits(struct helper *h, struct folder *f, dt_ms now, bool ending)
{
    f->waits_since = dt_follow_waits_since(&f->follow, now, ending ? 0 : h->plan->upload_after);
    tell_waits(h);
}

/* Uploads at most one entry; whether it did. */
static bool turn(struct helper *h, struct folder *f, bool ending)
{
    struct dt_follow_scan scan;
    struct dt_err why;
    warn_of_places(h, f);
    if (!atomic_load(&h->first) && dt_scan_is_shared(f->plan->dir))
        return false;
    if (dt_scan_folder(&scan, f->plan->dir, &why) < 0) {
        say_broken(h, f, &why);
        return false;
    }
    f->broken = false;
    dt_ms now = dt_clock_monotonic();
    bool sent = false;
    if (see(h, f, &scan, now, ending, &why) < 0)
        say_broken(h, f, &why);
    note_waits(h, f, now, ending);
    struct dt_follow_entry *e = dt_follow_next(&f->follow, now, ending ? 0 : h->plan->upload_after);
    while (e && !sent && !atomic_load(&h->stop)) {
        sent = upload(h, f, e, &scan);
        e = dt_follow_next(&f->follow, now, ending ? 0 : h->plan->upload_after);
    }
    note_waits(h, f, now, ending);
    dt_follow_scan_finish(&scan);
    return sent;
}

static bool turn_all(struct helper *h, bool ending)
{
    bool sent = false;
    for (size_t i = 0; i < h->plan->upload_count; i++)
        sent = turn(h, &h->folders[i], ending) || sent;
    return sent;
}

/* -- beginning and end ------------------------------------------------------------------------ */

/* A few scans fit into the time that tells what is complete. */
static void rest(struct helper *h)
{
    struct pollfd p = {.fd = h->wake, .events = POLLIN};
    eventfd_t ignored;
    dt_ms pause = h->plan->upload_after / 4;
    pause = pause > SCAN_RARELY ? SCAN_RARELY : pause < SCAN_OFTEN ? SCAN_OFTEN : pause;
    if (poll(&p, 1, (int)pause) > 0)
        eventfd_read(h->wake, &ignored);
}

static void begin_end(struct helper *h)
{
    for (size_t i = 0; i < h->plan->upload_count; i++)
        dt_follow_hurry(&h->folders[i].follow);
}

static void follow(struct helper *h)
{
    bool ending = false;
    while (!atomic_load(&h->stop)) {
        bool was = ending;
        ending = atomic_load(&h->ending); /* before the scan, which then sees all there is */
        if (ending && !was)
            begin_end(h);
        if (turn_all(h, ending))
            continue;
        if (ending)
            break;
        rest(h);
    }
}

/* What is left, once nobody tries any more; HELD: of what is held, or of the rest. */
static void tell_rest(const struct helper *h, const struct folder *f, bool held)
{
    size_t left = 0;
    const char *name = NULL;
    for (size_t i = 0; i < f->follow.count; i++) {
        const struct dt_follow_entry *e = &f->follow.at[i];
        if (e->held != held || e->mark == e->sent || e->failures)
            continue; /* of the others, there, or told of */
        name = e->name;
        left++;
    }
    if (left)
        tell(h, DT_LOG_WARN, "%s/%s%s not uploaded; %s", f->plan->dir, name,
             left == 1 ? " is" : " and others are",
             held ? "workers that failed or were killed changed what was uploaded before, and may "
                    "have left half of it; the copy stays as it was until the next job"
                  : "what is there is safe, and the next job uploads it");
}

static void become_helper(void)
{
    static const int ignored[] = {SIGINT,  SIGTERM, SIGHUP,  SIGQUIT,
                                  SIGPIPE, SIGIO,   SIGUSR1, SIGUSR2};
    sigset_t none;
    prctl(PR_SET_NAME, "dtrun-upload");
    setpriority(PRIO_PROCESS, 0, NICE);
    /* Whoever waits for the end of dtrun's output is not to wait for us. */
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int fd = 0; fd <= STDERR_FILENO && null >= 0; fd++)
        dup2(null, fd);
    for (size_t i = 0; i < sizeof ignored / sizeof *ignored; i++)
        signal(ignored[i], SIG_IGN); /* the agent hears them, and tells us */
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

void dt_upload_helper(const struct dt_plan *plan, int sock)
{
    struct helper h = {.plan = plan, .sock = sock, .wake = eventfd(0, EFD_CLOEXEC)};
    atomic_init(&h.first, !dt_plan_has_others(plan)); /* until the agent knows its place */
    pthread_t thread;
    become_helper();
    h.folders = calloc(plan->upload_count, sizeof *h.folders);
    if (h.wake < 0 || !h.folders || pthread_create(&thread, NULL, hear_agent, &h) != 0) {
        tell(&h, DT_LOG_ERROR, "--upload: no thread or no memory for it; nothing is uploaded");
        _exit(1);
    }
    for (size_t i = 0; i < plan->upload_count; i++)
        h.folders[i].plan = &plan->uploads[i];
    follow(&h);
    for (size_t i = 0; i < plan->upload_count; i++)
        for (int held = 0; held <= 1; held++)
            tell_rest(&h, &h.folders[i], held);
    _exit(0);
}
