/* SPDX-License-Identifier: Apache-2.0 */
/* Two things run on libuv's threads, each at most once at a time: a flush, which makes durable what
 * was put before it began, and the copying of a compaction. Both belong to the loop again when
 * their callback runs.
 *
 * A compaction copies the live records into journal.new, then what was appended meanwhile, until
 * little is left. That is copied at once, and from there on puts go to the new file. It takes the
 * old one's name within the next flush, behind its fdatasync(): until then nobody was told that a
 * record which stands in the new file alone is durable, so that a crash at any point leaves one
 * whole journal with all that was promised. */
#include "rendezvous/journal/journal.h"

#include "base/auto.h"
#include "base/list.h"
#include "base/log.h"
#include "rendezvous/journal/copy.h"
#include "rendezvous/journal/folder.h"
#include "rendezvous/journal/format.h"
#include "rendezvous/journal/index.h"
#include "rendezvous/journal/owed.h"

#include <assert.h>
#include <errno.h>

#define COMPACT_FROM ((uint64_t)4 << 20)
#define COPY_AT_ONCE ((uint64_t)64 << 10) /* what may be left when the files are exchanged */
#define PAY_EVERY_MS 1000                 /* while something is owed */

struct waiter {
    struct dt_node in_list;
    void (*done)(void *arg, const struct dt_err *err);
    void *arg;
};

struct flush {
    uv_work_t work;
    bool running;
    bool needed; /* something was put since the last one */
    bool adopts; /* journal.new takes its place */
    int fd;
    uint64_t puts;      /* how many this one makes durable */
    struct dt_list due; /* who waits for it */
    int errnum;
};

enum compaction_state { RESTING, COPYING, COPIED };

struct compaction {
    enum compaction_state state;
    uv_work_t work;
    struct dt_journal_copy copy;
    uint64_t upto;  /* of the old file is in `copy` */
    uint64_t round; /* how much the last or present turn of the thread copies */
    int errnum;
    uint64_t not_below; /* no new one before the file is so long; set when one failed */
};

struct dt_journal {
    uv_loop_t *loop;
    struct dt_journal_folder folder;
    int fd;
    uint64_t end;   /* of the last whole record */
    bool has_scrap; /* a failed put may have left bytes behind it */
    struct dt_journal_index index;
    struct dt_buf head; /* of the record being put */
    struct dt_journal_owed owed;
    uv_timer_t pay;         /* while there is something */
    uint64_t puts, durable; /* how many, and how many of these are on disk */
    struct dt_list waiting; /* for a flush that has not begun */
    struct flush flush;
    struct compaction compaction;
    struct dt_err failure; /* of a flush; for good */
    struct dt_journal_counters counters;
    bool closing;
    void (*on_closed)(void *arg);
    void *closed_arg;
};

static void flush_if_wanted(struct dt_journal *j);

static bool has_failed(const struct dt_journal *j)
{
    return j->failure.code != DT_E_NONE;
}

static int no_memory(const struct dt_journal *j, struct dt_err *err)
{
    return dt_err_set(err, DT_E_MEMORY, "%s/journal: no memory", j->folder.name);
}

/* -- open and close --------------------------------------------------------------------------- */

static int index_all(struct dt_journal *j, struct dt_bytes file)
{
    struct dt_journal_record r;
    j->end = DT_JOURNAL_HEADER;
    while (dt_journal_read_record((struct dt_bytes){file.at + j->end, file.len - j->end}, &r)) {
        struct dt_journal_entry *e = dt_journal_index_take(&j->index, r.key);
        if (!e)
            return -1;
        if (r.value.len)
            dt_journal_index_place(&j->index, e, j->end, r.size);
        else
            dt_journal_index_remove(&j->index, e);
        j->end += r.size;
    }
    return 0;
}

static void replay_all(const struct dt_journal *j, struct dt_bytes file,
                       dt_journal_replay_fn *replay, void *arg)
{
    dt_list_each(&j->index.order, n)
    {
        const struct dt_journal_entry *e = dt_journal_entry_of(n);
        struct dt_journal_record r;
        if (dt_journal_read_record((struct dt_bytes){file.at + e->at, e->size}, &r))
            replay(arg, r.key, r.value);
    }
}

static int load(struct dt_journal *j, dt_journal_replay_fn *replay, void *arg, struct dt_err *err)
{
    struct dt_buf bytes = {0};
    int rc = -1;
    j->fd = dt_journal_folder_load(&j->folder, &bytes, &j->counters.cut, err);
    if (j->fd >= 0) {
        struct dt_bytes file = {bytes.at, bytes.len};
        rc = index_all(j, file) < 0 ? no_memory(j, err) : 0;
        if (rc == 0)
            replay_all(j, file, replay, arg);
    }
    dt_buf_finish(&bytes);
    return rc;
}

static void destroy(struct dt_journal *j)
{
    dt_auto_close_fd(&j->fd);
    dt_journal_folder_close(&j->folder);
    dt_journal_index_finish(&j->index);
    dt_journal_owed_finish(&j->owed);
    dt_buf_finish(&j->head);
    free(j);
}

struct dt_journal *dt_journal_open(uv_loop_t *loop, const char *dir, dt_journal_replay_fn *replay,
                                   void *arg, struct dt_err *err)
{
    struct dt_journal *j = calloc(1, sizeof *j);
    if (!j) {
        dt_err_set(err, DT_E_MEMORY, "%s: no memory for its journal", dir);
        return NULL;
    }
    j->loop = loop;
    j->fd = -1;
    dt_list_init(&j->waiting);
    dt_journal_index_init(&j->index);
    dt_journal_owed_init(&j->owed);
    if (dt_journal_folder_open(&j->folder, dir, err) == 0 && load(j, replay, arg, err) == 0) {
        uv_timer_init(loop, &j->pay);
        return j;
    }
    destroy(j);
    return NULL;
}

static void on_timer_closed(uv_handle_t *h)
{
    struct dt_journal *j = dt_container_of((uv_timer_t *)h, struct dt_journal, pay);
    void (*on_closed)(void *arg) = j->on_closed;
    void *arg = j->closed_arg;
    destroy(j);
    if (on_closed)
        on_closed(arg);
}

/* A journal that is closing ends with the last of what is under way. */
static void end_if_idle(struct dt_journal *j)
{
    if (!j->flush.running && j->compaction.state == RESTING)
        uv_close((uv_handle_t *)&j->pay, on_timer_closed);
}

/* -- compaction ------------------------------------------------------------------------------- */

static void end_compaction(struct dt_journal *j)
{
    struct compaction *c = &j->compaction;
    dt_journal_copy_finish(&c->copy);
    c->state = RESTING;
}

static void abandon_compaction(struct dt_journal *j)
{
    close(j->compaction.copy.to);
    dt_journal_folder_drop_new(&j->folder);
    end_compaction(j);
}

/* It is an improvement, and no need: the journal goes on as it is until it is twice as long. */
static void compaction_failed(struct dt_journal *j, const char *why)
{
    j->compaction.not_below = 2 * j->end;
    dt_warn("%s/journal is not made smaller now: %s", j->folder.name, why);
}

/* On a thread, which has the copy to itself. */
static void copy(uv_work_t *work)
{
    struct compaction *c = dt_container_of(work, struct compaction, work);
    c->errnum = dt_journal_copy_run(&c->copy);
    if (c->errnum == 0 && fdatasync(c->copy.to) < 0)
        c->errnum = errno;
}

static void on_copied(uv_work_t *work, int status)
{
    struct dt_journal *j = dt_container_of(work, struct dt_journal, compaction.work);
    (void)status; /* it is never canceled */
    j->compaction.state = COPIED;
    if (j->compaction.errnum)
        compaction_failed(j, strerror(j->compaction.errnum));
    if (j->compaction.errnum || j->closing)
        abandon_compaction(j);
    if (j->closing)
        end_if_idle(j);
    else
        flush_if_wanted(j);
}

static void start_copying(struct dt_journal *j)
{
    j->compaction.state = COPYING;
    int rc = uv_queue_work(j->loop, &j->compaction.work, copy, on_copied);
    assert(rc == 0); /* it fails only without a function to call */
    (void)rc;
}

static int add_live_records(struct dt_journal *j)
{
    dt_list_each(&j->index.order, n)
    {
        const struct dt_journal_entry *e = dt_journal_entry_of(n);
        if (dt_journal_copy_add(&j->compaction.copy, e->at, e->size) < 0)
            return -1;
    }
    return 0;
}

static void start_compaction(struct dt_journal *j)
{
    struct compaction *c = &j->compaction;
    struct dt_err err;
    int to = dt_journal_folder_begin_new(&j->folder, &err);
    if (to < 0) {
        compaction_failed(j, err.text);
        return;
    }
    c->copy = (struct dt_journal_copy){.from = j->fd, .to = to, .end = DT_JOURNAL_HEADER};
    c->upto = j->end;
    c->round = j->index.live;
    if (add_live_records(j) < 0) {
        compaction_failed(j, strerror(ENOMEM));
        abandon_compaction(j);
        return;
    }
    start_copying(j);
}

static void compact_if_worth_it(struct dt_journal *j)
{
    const struct compaction *c = &j->compaction;
    if (c->state == RESTING && !j->flush.adopts && j->end > COMPACT_FROM &&
        j->end >= c->not_below && j->end > 3 * j->index.live)
        start_compaction(j);
}

/* From now on journal.new is what is written to. */
static void exchange_files(struct dt_journal *j)
{
    const struct dt_journal_copy *copied = &j->compaction.copy;
    size_t cursor = 0;
    dt_list_each(&j->index.order, n)
    {
        struct dt_journal_entry *e = dt_journal_entry_of(n);
        e->at = dt_journal_copy_place(copied, e->at, &cursor);
    }
    close(j->fd);
    j->fd = copied->to;
    j->end = copied->end;
    j->has_scrap = false;
    end_compaction(j);
}

/* Between two flushes: true when the next one is to put journal.new into its place. The thread gets
 * what is left, unless that is little, or hardly less than before: puts may be faster than it is.
 */
static bool finish_compaction(struct dt_journal *j)
{
    struct compaction *c = &j->compaction;
    if (c->state != COPIED)
        return false;
    if (j->closing || has_failed(j)) {
        abandon_compaction(j);
        return false;
    }
    uint64_t left = j->end - c->upto;
    int rc = left && dt_journal_copy_add(&c->copy, c->upto, left) < 0 ? ENOMEM : 0;
    c->upto = j->end;
    if (rc == 0 && left > COPY_AT_ONCE && left < c->round / 2) {
        c->round = left;
        start_copying(j);
        return false;
    }
    if (rc == 0)
        rc = dt_journal_copy_run(&c->copy);
    if (rc) {
        compaction_failed(j, strerror(rc));
        abandon_compaction(j);
        return false;
    }
    exchange_files(j);
    return true;
}

/* -- flush ------------------------------------------------------------------------------------ */

/* On a thread. The folder's names and numbers stay what they are while the journal is open. */
static void flush(uv_work_t *work)
{
    const struct dt_journal *j = dt_container_of(work, struct dt_journal, flush.work);
    struct flush *f = dt_container_of(work, struct flush, work);
    f->errnum = f->needed && fdatasync(f->fd) < 0 ? errno : 0;
    if (f->errnum == 0 && f->adopts)
        f->errnum = dt_journal_folder_adopt_new(&j->folder);
}

static void flush_failed(struct dt_journal *j, int errnum)
{
    dt_err_set(&j->failure, DT_E_RUNTIME,
               "%s/journal cannot be made durable: %s; see to the disk, then start again",
               j->folder.name, strerror(errnum));
    dt_list_move(&j->flush.due, &j->waiting);
}

static void flush_worked(struct dt_journal *j)
{
    j->durable = j->flush.puts;
    j->counters.syncs += j->flush.needed;
    j->counters.compactions += j->flush.adopts;
}

static void tell(struct dt_list *due, const struct dt_err *err)
{
    for (struct dt_node *n; (n = dt_list_pop(due));) {
        struct waiter *w = dt_container_of(n, struct waiter, in_list);
        w->done(w->arg, err);
        free(w);
    }
}

static void on_flushed(uv_work_t *work, int status)
{
    struct dt_journal *j = dt_container_of(work, struct dt_journal, flush.work);
    (void)status; /* it is never canceled */
    if (j->flush.errnum)
        flush_failed(j, j->flush.errnum);
    else
        flush_worked(j);
    tell(&j->flush.due, has_failed(j) ? &j->failure : NULL);
    j->flush.running = j->flush.adopts = false;
    flush_if_wanted(j);
    if (j->closing)
        end_if_idle(j);
}

static void start_flush(struct dt_journal *j, bool adopts)
{
    struct flush *f = &j->flush;
    f->running = true;
    f->adopts = adopts;
    f->needed = adopts || (j->puts != j->durable && !has_failed(j));
    f->fd = j->fd;
    f->puts = j->puts;
    dt_list_init(&f->due);
    dt_list_move(&f->due, &j->waiting);
    int rc = uv_queue_work(j->loop, &f->work, flush, on_flushed);
    assert(rc == 0); /* it fails only without a function to call */
    (void)rc;
}

static void flush_if_wanted(struct dt_journal *j)
{
    if (j->flush.running)
        return;
    bool adopts = finish_compaction(j);
    bool last = j->closing && j->puts != j->durable && !has_failed(j);
    if (adopts || last || !dt_list_empty(&j->waiting))
        start_flush(j, adopts);
}

int dt_journal_sync(struct dt_journal *j, void (*done)(void *arg, const struct dt_err *err),
                    void *arg, struct dt_err *err)
{
    assert(!j->closing);
    if (has_failed(j)) {
        if (err)
            *err = j->failure;
        return -1;
    }
    struct waiter *w = malloc(sizeof *w);
    if (!w)
        return no_memory(j, err);
    *w = (struct waiter){.done = done, .arg = arg};
    dt_list_append(&j->waiting, &w->in_list);
    flush_if_wanted(j);
    return 0;
}

/* -- put -------------------------------------------------------------------------------------- */

static int check_put(const struct dt_journal *j, struct dt_bytes key, struct dt_bytes value,
                     struct dt_err *err)
{
    if (has_failed(j)) {
        if (err)
            *err = j->failure;
        return -1;
    }
    if (key.len == 0 || key.len > DT_JOURNAL_KEY_MAX)
        return dt_err_set(err, DT_E_LIMIT, "a journal's key has 1 to %d bytes, not %zu",
                          DT_JOURNAL_KEY_MAX, key.len);
    if (value.len > DT_JOURNAL_VALUE_MAX)
        return dt_err_set(err, DT_E_LIMIT, "a journal's value has %u bytes at most, not %zu",
                          DT_JOURNAL_VALUE_MAX, value.len);
    return 0;
}

/* What a put left that did not succeed must not stand behind a later, shorter record. */
static int cut_scrap(struct dt_journal *j)
{
    if (j->has_scrap && ftruncate(j->fd, (off_t)j->end) < 0)
        return errno;
    j->has_scrap = false;
    return 0;
}

static int append(struct dt_journal *j, struct dt_bytes key, struct dt_bytes value)
{
    dt_buf_clear(&j->head);
    dt_journal_write_head(&j->head, key, value);
    if (j->head.bad) {
        dt_buf_finish(&j->head); /* and so no longer bad */
        return ENOMEM;
    }
    int rc = cut_scrap(j);
    if (rc)
        return rc;
    rc = dt_journal_write_at(j->fd, j->head.at, j->head.len, j->end);
    if (rc == 0)
        rc = dt_journal_write_at(j->fd, value.at, value.len, j->end + j->head.len);
    if (rc) {
        j->has_scrap = true;
        cut_scrap(j);
    }
    return rc;
}

static void note_appended(struct dt_journal *j, uint64_t size)
{
    j->end += size;
    j->puts++;
    j->counters.records++;
    j->counters.bytes += size;
}

/* 0, or an errno value: all is as before. */
static int enter(struct dt_journal *j, struct dt_bytes key, struct dt_bytes value)
{
    struct dt_journal_entry *e = dt_journal_index_take(&j->index, key);
    int rc = e ? append(j, key, value) : ENOMEM;
    if (rc) {
        if (e && e->size == 0)
            dt_journal_index_remove(&j->index, e);
        return rc;
    }
    uint64_t at = j->end, size = DT_JOURNAL_RECORD_HEAD + key.len + value.len;
    note_appended(j, size);
    if (value.len)
        dt_journal_index_place(&j->index, e, at, size);
    else
        dt_journal_index_remove(&j->index, e);
    compact_if_worth_it(j);
    return 0;
}

/* -- what is owed ----------------------------------------------------------------------------- */

static int pay(struct dt_journal *j)
{
    for (struct dt_journal_debt *d; (d = dt_journal_owed_first(&j->owed));) {
        int rc = enter(j, d->key, d->value);
        if (rc)
            return rc;
        dt_journal_owed_drop(&j->owed, d->key);
    }
    if (uv_is_active((uv_handle_t *)&j->pay)) {
        uv_timer_stop(&j->pay);
        dt_info("%s/journal has taken what its disk had no room for", j->folder.name);
    }
    return 0;
}

static void on_paid(void *arg, const struct dt_err *err)
{
    (void)arg;
    if (err)
        dt_error("%s", err->text);
}

static void on_pay(uv_timer_t *t)
{
    struct dt_journal *j = dt_container_of(t, struct dt_journal, pay);
    struct dt_err err;
    if (has_failed(j)) /* for good */
        uv_timer_stop(t);
    else if (pay(j) == 0 && dt_journal_sync(j, on_paid, NULL, &err) < 0)
        dt_warn("%s", err.text);
}

static void owe(struct dt_journal *j, struct dt_bytes key, struct dt_bytes value)
{
    if (dt_journal_owed_add(&j->owed, key, value) == 0 && !uv_is_active((uv_handle_t *)&j->pay))
        uv_timer_start(&j->pay, on_pay, PAY_EVERY_MS, PAY_EVERY_MS);
}

/* What is owed goes first: the order of keys is that in which they were put. */
int dt_journal_put(struct dt_journal *j, struct dt_bytes key, struct dt_bytes value,
                   struct dt_err *err)
{
    assert(!j->closing);
    if (check_put(j, key, value, err) < 0)
        return -1;
    dt_journal_owed_drop(&j->owed, key);
    if (value.len == 0 && !dt_journal_index_find(&j->index, key))
        return 0;
    int rc = pay(j);
    if (rc == 0)
        rc = enter(j, key, value);
    if (rc == 0)
        return 0;
    owe(j, key, value);
    return dt_err_set(err, DT_E_RUNTIME,
                      "%s/journal does not take %zu bytes more: %s; see to the room on its disk",
                      j->folder.name, key.len + value.len, strerror(rc));
}

void dt_journal_close(struct dt_journal *j, void (*on_closed)(void *arg), void *arg)
{
    if (!j)
        return;
    assert(!j->closing);
    if (!has_failed(j))
        pay(j);
    j->closing = true;
    j->on_closed = on_closed;
    j->closed_arg = arg;
    if (!j->flush.running) /* also with nothing to do: ON_CLOSED is called from the loop */
        start_flush(j, false);
}

const struct dt_journal_counters *dt_journal_counters(const struct dt_journal *j)
{
    return &j->counters;
}

size_t dt_journal_unwritten(const struct dt_journal *j)
{
    return j->owed.map.count;
}

bool dt_journal_is_lost(const struct dt_journal *j)
{
    return has_failed(j);
}
