/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/output/tails.h"

#include "agent/output/portion.h"
#include "agent/output/reading.h"
#include "base/json_write.h"
#include "base/list.h"
#include "base/log.h"
#include "base/loop/ending.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define AT_ONCE 16     /* streams that are looked at together */
#define TURN 2048      /* bytes of each of them in its turn */
#define PIECE_COSTS 24 /* beside its text: as JSON less than six times as much, like that */
#define BUSY_MS 20     /* between two pages; and that is how much a flood is read along */
#define IDLE_MS 250    /* between two looks that found nothing */
#define FLUSH_MOST ((size_t)256 << 10) /* that is told unasked, to all together */
#define DISK_MOST (2 * DT_SECOND)      /* a read that takes longer is one of a disk that hangs */

/* How far one stream was told. */
struct cursor {
    int64_t since; /* which stream; 0: none yet; -1: there was none when it began */
    uint64_t at;
    uint64_t until; /* no more is asked for; UINT64_MAX: whatever comes */
    uint64_t end;   /* at the last look */
    int cuts;       /* how often it became shorter */
};

/* A person, who reads. */
struct follower {
    struct dt_node in_tails;
    int64_t id;
    struct dt_rank_set ranks;
    int lines;
    bool follow;
    int room; /* for the next page; 0: none is asked for */
    dt_ms due;
    size_t next;  /* the stream whose turn it is */
    size_t turns; /* that are left in this sweep through all */
    bool found;   /* in this sweep: more than a turn had room for */
    bool gone;    /* while a disk is read for it ... */
    bool stale;   /* ... of which all was told meanwhile */
    struct dt_buf pieces;
    int left; /* of the room, in the page that is being made */
    struct cursor cursors[];
};

struct dt_tails {
    uv_loop_t *loop;
    struct dt_tails_config config;
    struct dt_list followers;
    uv_timer_t timer;
    uv_work_t work;
    struct follower *served; /* by that work; NULL: none is under way ... */
    dt_ms served_at;         /* ... since then */
    struct dt_reading readings[AT_ONCE];
    size_t len;
    struct dt_ending ending;
};

static size_t count_streams(const struct dt_tails *t)
{
    return (size_t)t->config.plan->nproc * 2;
}

static unsigned stream_at(size_t slot)
{
    return slot % 2 ? DT_STDERR : DT_STDOUT;
}

/* -- what is told ----------------------------------------------------------------------------- */

/* Begins a piece, which its caller ends. */
static void put_piece(struct follower *f, struct dt_json_writer *w, int rank, unsigned stream,
                      int64_t since)
{
    if (f->pieces.len > 0)
        dt_buf_put_u8(&f->pieces, ',');
    dt_json_put_object(w, NULL);
    dt_json_put_int(w, "rank", rank);
    if (stream == DT_STDERR)
        dt_json_put_bool(w, "stderr", true);
    dt_json_put_int(w, "since", since);
}

/* Where the worker writes itself. */
static void tell_inherited(struct follower *f, size_t slot, const struct dt_output_log *log)
{
    struct dt_json_writer w = {.out = &f->pieces};
    char link[40], path[200];
    snprintf(link, sizeof link, "/proc/self/fd/%d", log->inherited);
    ssize_t n = readlink(link, path, sizeof path - 1);
    path[n > 0 ? n : 0] = '\0';
    put_piece(f, &w, log->rank, stream_at(slot), log->since);
    dt_json_put_text(&w, "inherited", path);
    dt_json_put_end(&w);
    f->left -= PIECE_COSTS + (int)sizeof path;
}

static void tell_text(struct follower *f, const struct dt_reading *r, const struct cursor *c,
                      struct dt_bytes text, bool open)
{
    struct dt_json_writer w = {.out = &f->pieces};
    put_piece(f, &w, r->log.rank, r->stream, c->since + c->cuts);
    dt_json_put_uint(&w, "at", c->at);
    dt_json_put_uint(&w, "next", c->at + text.len);
    if (open)
        dt_json_put_bool(&w, "open", true);
    dt_json_put_raw(&w, "text", "%s", "");
    dt_portion_quote(&f->pieces, text);
    dt_json_put_end(&w);
    f->left -= PIECE_COSTS + (int)text.len;
}

static void send_page(struct dt_tails *t, struct follower *f, bool over)
{
    struct dt_buf page = {0};
    struct dt_json_writer w = {.out = &page};
    bool empty = f->pieces.len == 0;
    dt_json_put_object(&w, NULL);
    dt_json_put_text(&w, "role", t->config.plan->role);
    dt_json_put_int(&w, "round", t->config.world->round);
    dt_json_put_raw(&w, "pieces", "[%s]", empty ? "" : dt_buf_cstr(&f->pieces));
    dt_json_put_end(&w);
    const char *text = empty || page.bad || f->pieces.bad ? NULL : dt_buf_cstr(&page);
    f->room = 0;
    dt_buf_finish(&f->pieces);
    t->config.tell(t->config.arg, f->id, over, text);
    dt_buf_finish(&page);
}

/* -- one stream ------------------------------------------------------------------------------- */

/* Of a stream that is empty so far there is not even an address. */
static void drop_front(struct dt_bytes *text, size_t len)
{
    if (len > 0)
        *text = (struct dt_bytes){text->at + len, text->len - len};
}

/* The first look at a stream, or at one that took the place of another. */
static void begin_stream(struct follower *f, struct cursor *c, const struct dt_reading *r,
                         struct dt_bytes *text)
{
    bool fresh = c->since == 0;
    *c = (struct cursor){.since = r->log.since, .until = UINT64_MAX};
    size_t skip = fresh && f->lines >= 0 ? dt_portion_last_lines(*text, f->lines) : 0;
    c->at = r->from + skip;
    drop_front(text, skip);
    if (!f->follow)
        c->until = r->end;
}

/* What is not kept any more is left out, with the line whose end alone is. */
static void skip_lost(struct cursor *c, const struct dt_reading *r, struct dt_bytes *text)
{
    if (r->end < c->at) /* somebody has cut the file */
        c->cuts++;
    if (r->from == c->at)
        return;
    size_t skip = r->from > c->at ? dt_portion_first_line(*text) : 0;
    c->at = r->from + skip;
    drop_front(text, skip);
}

/* Tells as much as a turn has room for, and returns that. An unfinished line goes when it has not
 * grown since the last look, or (ALL) nobody looks again. */
static size_t tell_stream(struct follower *f, struct cursor *c, const struct dt_reading *r,
                          bool all)
{
    struct dt_bytes text = {r->bytes.at, r->bytes.len};
    if (r->bytes.bad)
        return 0;
    if (c->since != r->log.since)
        begin_stream(f, c, r, &text);
    else
        skip_lost(c, r, &text);
    bool whole = c->at + text.len == r->end;
    bool rests = all || !f->follow || c->end == r->end;
    c->end = r->end;
    size_t n = dt_portion_cut(text, TURN, whole && rests);
    if (n > 0) {
        bool open = text.at[n - 1] != '\n' && text.at[n - 1] != '\r' && whole && n == text.len;
        tell_text(f, r, c, (struct dt_bytes){text.at, n}, open);
        c->at += n;
    }
    f->found |= n > 0 && c->at < r->end;
    return n;
}

/* -- a page ----------------------------------------------------------------------------------- */

static bool is_wanted(const struct dt_tails *t, const struct follower *f, size_t slot,
                      struct dt_output_log *log)
{
    return dt_output_log(t->config.output, (int)(slot / 2), stream_at(slot), log) &&
           dt_rank_set_has(&f->ranks, log->rank, log->rank);
}

static void note_inherited(struct follower *f, size_t slot, const struct dt_output_log *log)
{
    struct cursor *c = &f->cursors[slot];
    if (c->since == log->since)
        return;
    *c = (struct cursor){.since = log->since};
    tell_inherited(f, slot, log);
}

/* Whether there is a look at that stream to be taken, which is *R then: at the last KEPT bytes. */
static bool prepare(struct dt_tails *t, struct follower *f, size_t slot, uint64_t kept,
                    struct dt_reading *r)
{
    const struct cursor *c = &f->cursors[slot];
    struct dt_err err;
    *r = (struct dt_reading){.local_rank = (int)(slot / 2), .stream = stream_at(slot), .file = -1};
    if (!is_wanted(t, f, slot, &r->log))
        return false;
    if (r->log.inherited >= 0) {
        note_inherited(f, slot, &r->log);
        return false;
    }
    r->wish = (struct dt_reading_wish){.fresh = c->since == 0 && f->lines >= 0,
                                       .at = c->since == r->log.since ? c->at : 0,
                                       .most = 2 * TURN,
                                       .kept = kept};
    if (c->since == r->log.since && c->at >= c->until)
        return false;
    if (dt_reading_begin(r, t->config.output, &err) == 0)
        return true;
    dt_debug("%s", err.text);
    dt_reading_finish(r);
    return false;
}

static void collect(struct dt_tails *t, struct follower *f)
{
    for (size_t i = 0; i < t->len; i++) {
        struct dt_reading *r = &t->readings[i];
        size_t slot = (size_t)r->local_rank * 2 + (r->stream == DT_STDERR);
        if (!f->gone && !f->stale && f->left > 0)
            tell_stream(f, &f->cursors[slot], r, false);
        dt_reading_finish(r);
    }
    t->len = 0;
}

/* Whether nothing that was asked for is untold. */
static bool is_over(const struct dt_tails *t, const struct follower *f)
{
    struct dt_output_log log;
    if (f->follow)
        return false;
    for (size_t slot = 0; slot < count_streams(t); slot++) {
        const struct cursor *c = &f->cursors[slot];
        if (is_wanted(t, f, slot, &log) && (c->since != log.since || c->at < c->until))
            return false;
    }
    return true;
}

static void arm(struct dt_tails *t);

/* All streams were looked at, or the page is full. */
static void end_sweep(struct dt_tails *t, struct follower *f)
{
    bool over = is_over(t, f);
    if (f->pieces.len > 0 || over)
        send_page(t, f, over);
    f->due = (dt_ms)uv_now(t->loop) + (f->room == 0 ? BUSY_MS : IDLE_MS);
}

/* Fills the batch with looks at the next streams. Whether one of them needs a disk. */
static bool fill_batch(struct dt_tails *t, struct follower *f)
{
    bool disk = false;
    for (; f->turns > 0 && t->len < AT_ONCE && f->left > 0; f->turns--) {
        struct dt_reading *r = &t->readings[t->len];
        if (prepare(t, f, f->next, DT_READING_KEPT, r)) {
            disk |= r->file >= 0;
            t->len++;
        }
        f->next = (f->next + 1) % count_streams(t);
    }
    return disk;
}

static void on_read(uv_work_t *work)
{
    struct dt_tails *t = dt_container_of(work, struct dt_tails, work);
    for (size_t i = 0; i < t->len; i++)
        dt_reading_read(&t->readings[i]);
}

static void go_on(struct dt_tails *t, struct follower *f);
static void forget(struct follower *f);

static void on_was_read(uv_work_t *work, int status)
{
    struct dt_tails *t = dt_container_of(work, struct dt_tails, work);
    struct follower *f = t->served;
    (void)status;
    t->served = NULL;
    collect(t, f);
    f->stale = false;
    if (f->gone)
        forget(f);
    else if (f->room > 0)
        go_on(t, f);
    if (t->ending.begun)
        dt_ending_step(&t->ending);
    else
        arm(t);
}

/* Sweep after sweep, until the page is full or a sweep finds nothing more. */
static void go_on(struct dt_tails *t, struct follower *f)
{
    for (;;) {
        bool disk = fill_batch(t, f);
        if (disk) {
            t->served = f;
            t->served_at = (dt_ms)uv_now(t->loop);
            uv_queue_work(t->loop, &t->work, on_read, on_was_read);
            return;
        }
        collect(t, f);
        if (f->left > 0 && f->turns > 0)
            continue;
        if (f->left <= 0 || !f->found)
            break;
        f->turns = count_streams(t);
        f->found = false;
    }
    end_sweep(t, f);
}

static void begin_page(struct dt_tails *t, struct follower *f)
{
    f->left = f->room;
    f->turns = count_streams(t);
    f->found = false;
    go_on(t, f);
}

/* -- time ------------------------------------------------------------------------------------- */

static void on_timer(uv_timer_t *timer)
{
    struct dt_tails *t = dt_container_of(timer, struct dt_tails, timer);
    dt_list_each(&t->followers, n)
    {
        struct follower *f = dt_container_of(n, struct follower, in_tails);
        if (!t->served && f->room > 0 && f->due <= (dt_ms)uv_now(t->loop))
            begin_page(t, f);
    }
    arm(t);
}

/* Work that is under way arms again. */
static void arm(struct dt_tails *t)
{
    dt_ms due = DT_FOREVER, now = (dt_ms)uv_now(t->loop);
    dt_list_each(&t->followers, n)
    {
        const struct follower *f = dt_container_of(n, struct follower, in_tails);
        if (f->room > 0 && f->due < due)
            due = f->due;
    }
    if (due == DT_FOREVER || t->served)
        uv_timer_stop(&t->timer);
    else
        uv_timer_start(&t->timer, on_timer, (uint64_t)(due > now ? due - now : 0), 0);
}

/* -- who reads -------------------------------------------------------------------------------- */

static void forget(struct follower *f)
{
    dt_list_remove(&f->in_tails);
    dt_buf_finish(&f->pieces);
    free(f); /* the only free of one */
}

static void leave(struct dt_tails *t, struct follower *f)
{
    f->gone = true;
    dt_list_remove(&f->in_tails);
    if (f != t->served)
        forget(f);
}

static struct follower *find(const struct dt_tails *t, int64_t id)
{
    dt_list_each(&t->followers, n)
    {
        struct follower *f = dt_container_of(n, struct follower, in_tails);
        if (f->id == id)
            return f;
    }
    return NULL;
}

static size_t count_followers(const struct dt_tails *t)
{
    size_t count = 0;
    dt_list_each(&t->followers, n) count++;
    return count;
}

static void make_room(struct dt_tails *t)
{
    if (count_followers(t) >= DT_TAILS_MOST)
        leave(t, dt_container_of(dt_list_first(&t->followers), struct follower, in_tails));
}

static void begin(struct dt_tails *t, const struct dt_message *m)
{
    struct dt_rank_set ranks;
    struct dt_output_log log;
    struct follower *f = find(t, m->tail.id);
    if (f)
        leave(t, f);
    make_room(t);
    f = calloc(1, sizeof *f + count_streams(t) * sizeof *f->cursors);
    if (!f || dt_rank_set_read(m->tail.ranks, &ranks, NULL) < 0) {
        free(f);
        return;
    }
    f->id = m->tail.id;
    f->ranks = ranks;
    f->lines = m->tail.lines;
    f->follow = m->tail.follow;
    f->room = m->tail.room;
    dt_node_init(&f->in_tails);
    dt_list_append(&t->followers, &f->in_tails);
    for (size_t slot = 0; slot < count_streams(t); slot++)
        if (!dt_output_log(t->config.output, (int)(slot / 2), stream_at(slot), &log))
            f->cursors[slot].since = -1; /* all of what comes there is new */
}

void dt_tails_hear(struct dt_tails *t, const struct dt_message *m)
{
    struct follower *f = m->type == DT_MSG_MORE ? find(t, m->more.id) : NULL;
    if (m->type == DT_MSG_TAIL)
        begin(t, m);
    else if (f && m->more.room == 0)
        leave(t, f);
    else if (f)
        f->room = m->more.room;
    arm(t);
}

/* -- the end ---------------------------------------------------------------------------------- */

static size_t count_wanted(const struct dt_tails *t, const struct follower *f)
{
    struct dt_output_log log;
    size_t count = 0;
    for (size_t slot = 0; slot < count_streams(t); slot++)
        count += is_wanted(t, f, slot, &log);
    return count;
}

static bool disk_hangs(const struct dt_tails *t)
{
    return t->served && (dt_ms)uv_now(t->loop) - t->served_at >= DISK_MOST;
}

/* A file is read here and now: the workers have just been through with it. What they left behind
 * may still write, and faster than this. Not from a disk that hangs: nothing else would be done
 * here, and the node be given up. */
static void flush_stream(struct dt_tails *t, struct follower *f, size_t slot, size_t share)
{
    struct dt_reading r;
    size_t told = 0;
    do {
        f->found = false;
        if (!prepare(t, f, slot, share, &r))
            return;
        if (r.file >= 0 && disk_hangs(t)) {
            dt_reading_finish(&r);
            return;
        }
        dt_reading_read(&r);
        told += tell_stream(f, &f->cursors[slot], &r, true);
        dt_reading_finish(&r);
        if (f->left > 0)
            continue;
        send_page(t, f, false);
        f->left = DT_TAIL_ROOM_MOST;
    } while (f->found && told < share);
}

/* A page that was begun goes first: with another one it may be too long for a frame. */
static void flush(struct dt_tails *t, struct follower *f, size_t most)
{
    size_t wanted = count_wanted(t, f);
    size_t share = most / (wanted ? wanted : 1);
    if (f->pieces.len > 0)
        send_page(t, f, false);
    f->stale = f == t->served;
    f->left = DT_TAIL_ROOM_MOST;
    for (size_t slot = 0; slot < count_streams(t); slot++)
        flush_stream(t, f, slot, share);
    if (f->pieces.len > 0)
        send_page(t, f, false);
}

void dt_tails_flush(struct dt_tails *t)
{
    if (!t || dt_list_empty(&t->followers))
        return;
    size_t most = FLUSH_MOST / count_followers(t);
    if (disk_hangs(t))
        dt_warn("the disk of the logs has not answered for %d s: who reads along may miss what "
                "workers printed last",
                dt_clock_seconds((dt_ms)uv_now(t->loop) - t->served_at));
    dt_list_each(&t->followers, n) flush(t, dt_container_of(n, struct follower, in_tails), most);
    arm(t);
}

static void tails_free(void *tails)
{
    free(tails); /* the only free of one that was created */
}

struct dt_tails *dt_tails_create(uv_loop_t *loop, const struct dt_tails_config *config,
                                 struct dt_err *err)
{
    struct dt_tails *t = calloc(1, sizeof *t);
    if (!t) {
        dt_err_set(err, DT_E_MEMORY, "no memory for those who read along");
        return NULL;
    }
    t->loop = loop;
    t->config = *config;
    dt_list_init(&t->followers);
    uv_timer_init(loop, &t->timer);
    return t;
}

void dt_tails_close(struct dt_tails *t)
{
    if (!t)
        return;
    dt_list_each(&t->followers, n) leave(t, dt_container_of(n, struct follower, in_tails));
    dt_ending_begin(&t->ending, tails_free, t, NULL, NULL);
    dt_ending_close(&t->ending, &t->timer);
    if (t->served) {
        dt_ending_add(&t->ending);
        uv_cancel((uv_req_t *)&t->work);
    }
}
