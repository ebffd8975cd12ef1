/* SPDX-License-Identifier: Apache-2.0 */
/* A finding in words: the camps of a view, the culprit's first. */
#include "rendezvous/hang/inside.h"

#include "base/str.h"
#include "rendezvous/protocol/store_key.h"

#include <stdio.h>
#include <string.h>

#define CAMPS_NAMED 4 /* in a sentence */
#define RANKS_TEXT 96

static const struct {
    const char *one, *many; /* "rank 2 sleeps", "ranks 2 and 3 sleep" */
} verbs[DT_DOINGS] = {
    [DT_DOING_UNKNOWN] = {"could not be looked at", "could not be looked at"},
    [DT_DOING_STOPPED] = {"is stopped", "are stopped"},
    [DT_DOING_LEFT] = {"has left", "have left"},
    [DT_DOING_CHILD] = {"waits for a process of its own", "wait for processes of their own"},
    [DT_DOING_COLLECTIVE] = {"waits", "wait"},
    [DT_DOING_STORE] = {"waits in the job's store", "wait in the job's store"},
    [DT_DOING_COMPILE] = {"compiles", "compile"},
    [DT_DOING_COLLECT] = {"collects garbage", "collect garbage"},
    [DT_DOING_SAVE] = {"writes a checkpoint", "write a checkpoint"},
    [DT_DOING_DISK] = {"waits for a disk", "wait for a disk"},
    [DT_DOING_PIPE] = {"waits for a pipe", "wait for a pipe"},
    [DT_DOING_SOCKET] = {"waits for a peer", "wait for a peer"},
    [DT_DOING_LOCK] = {"waits for a thread of its own", "wait for threads of their own"},
    [DT_DOING_SLEEP] = {"sleeps", "sleep"},
    [DT_DOING_COMPUTE] = {"computes", "compute"},
    [DT_DOING_WAIT] = {"waits in the kernel", "wait in the kernel"},
};

static const char *const advice[DT_HANG_CLASSES] = {
    [DT_HANG_NONE] = "",
    [DT_HANG_OUTSIDE] = "look at that line: a call that does not return, a loop without an end, or "
                        "a branch that the other ranks do not take",
    [DT_HANG_SKIPPED] = "every rank has to call the same collectives in the same order: look for a "
                        "branch or a number of batches that differs between ranks",
    [DT_HANG_MISMATCH] = "every rank has to call the same collectives in the same order: look for "
                         "a branch that depends on the rank around these lines",
    [DT_HANG_SHAPE] = "sizes and types have to be the same on every rank: look at a last batch "
                      "that is smaller, and at parameters that only some ranks have",
    [DT_HANG_LEFT] = "a rank that ends early leaves the others waiting: give every rank as many "
                     "batches (drop_last), or let it wait in a barrier before it ends",
    [DT_HANG_STOPPED] = "kill -CONT lets it go on; see whether a debugger is attached, or who "
                        "sent SIGSTOP",
    [DT_HANG_CHILD] = "look at that process; if it is gone, the kernel's log tells whether it was "
                      "killed for want of memory, and df whether /dev/shm is full; of a data "
                      "loader, num_workers=0 shows the error",
    [DT_HANG_DISK] = "look at that file system: df tells whether it is full, the kernel's log "
                     "(dmesg) whether the disk or its server fails",
    [DT_HANG_LOCK] = "one thread holds what another wants: dtrun --look PID on that node shows "
                     "what each of its threads does",
    [DT_HANG_KEY] = "see whether every rank gets as far as that line, with the same world size and "
                    "the same process groups in the same order",
    [DT_HANG_NETWORK] = "a link or a GPU does not answer, or ranks pass different sizes: look at "
                        "the kernel's log (dmesg, Xid) and at the network's devices; "
                        "NCCL_DEBUG=INFO tells of links, TORCH_DISTRIBUTED_DEBUG=DETAIL of sizes",
    [DT_HANG_STARVED] = "look at where the data comes from: the file system or its server, and "
                        "how many loader processes there are for how many processors",
    [DT_HANG_BUSY] = "this takes its time and should end by itself: wait, and look again if it "
                     "does not",
    [DT_HANG_LONG] =
        "this takes long, or it is a loop without an end, which looks the same: see what "
        "ends that function",
    [DT_HANG_UNREADABLE] = "run dtrun --look PID on that node as the user of the job or as root",
};

const char *hang_advice(enum dt_hang_class class)
{
    return advice[class];
}

static const char *base_name(const char *where)
{
    const char *slash = strrchr(where, '/');
    return slash ? slash + 1 : where;
}

/* Whether another file in this view ends in the same name. */
static bool is_ambiguous(const struct hang_view *v, const struct dt_stance *s)
{
    size_t folder = (size_t)(base_name(s->where) - s->where),
           name = strcspn(s->where + folder, ":");
    for (size_t i = 0; i < v->camps.len; i++) {
        const char *where = v->camps.at[i].stance.where, *base = base_name(where);
        bool same_name = strcspn(base, ":") == name && strncmp(base, s->where + folder, name) == 0;
        bool same_folder = (size_t)(base - where) == folder && memcmp(where, s->where, folder) == 0;
        if (same_name && !same_folder)
            return true;
    }
    return false;
}

/* " for rank 3's address (key default_pg/0//cpu//0/3)" */
static void put_keys(const char *keys, struct dt_buf *out)
{
    char words[DT_STORE_KEY_WORDS];
    dt_store_key_words(keys, words);
    dt_buf_printf(out, *words ? " for %s (key %s)" : " for%s key %s", words, keys);
}

/* Of a camp in which each has to do with something else, what the first has that tells. */
static void put_example(const struct hang_view *v, const struct dt_stance_group *camp,
                        struct dt_buf *out)
{
    for (size_t i = 0; i < v->stances->len; i++) {
        const struct dt_stance *s = &v->stances->at[i].stance;
        if (!dt_stance_alike(s, &camp->stance) || (!*s->object && !*s->keys))
            continue;
        dt_buf_printf(out, " (rank %d:", v->stances->at[i].ranges[0].first);
        if (*s->object)
            dt_buf_printf(out, " %s", s->object);
        else
            put_keys(s->keys, out);
        dt_buf_put_str(out, ")");
        return;
    }
}

static void put_call(const struct dt_stance *s, enum dt_hang_class class, struct dt_buf *out)
{
    dt_buf_printf(out, " in %s", *s->collective ? s->collective : "a collective");
    if (class == DT_HANG_SHAPE && *s->shape)
        dt_buf_printf(out, " of %s", s->shape);
    if (class == DT_HANG_MISMATCH && *s->group)
        dt_buf_printf(out, " of group %s", s->group);
    if (class == DT_HANG_SKIPPED && s->sequence >= 0)
        dt_buf_printf(out, " number %lld", (long long)s->sequence);
}

static bool loops(const struct dt_stance *s)
{
    return s->last_line > s->first_line;
}

/* "ranks 0, 1 and 3 wait in all_reduce at train.py:11". A culprit's place is told in full. */
static void put_camp(const struct hang_view *v, const struct dt_stance_group *camp,
                     enum dt_hang_class class, bool full, struct dt_buf *out)
{
    const struct dt_stance *s = &camp->stance;
    char ranks[RANKS_TEXT];
    const char *one = loops(s) ? "loops" : verbs[s->doing].one,
               *many = loops(s) ? "loop" : verbs[s->doing].many;
    dt_buf_printf(out, "%s %s", dt_stance_ranks(camp, ranks, sizeof ranks),
                  camp->ranks == 1 ? one : many);
    if (s->doing == DT_DOING_COLLECTIVE)
        put_call(s, class, out);
    if (*s->where)
        dt_buf_printf(out, " at %s", full || is_ambiguous(v, s) ? s->where : base_name(s->where));
    if (full && *s->function && *s->function != '<') /* <module> and <lambda> are no names */
        dt_buf_printf(out, strchr(s->function, ' ') ? " in %s" : " in %s()", s->function);
    if (loops(s))
        dt_buf_printf(out, " between lines %d and %d", s->first_line, s->last_line);
    if (*s->keys)
        put_keys(s->keys, out);
    if (*s->object)
        dt_buf_printf(out, ": %s", s->object);
    else if (!*s->keys)
        put_example(v, camp, out);
    if (*s->detail)
        dt_buf_printf(out, " (%s)", s->detail);
}

/* The camps beside the two SIDES. */
static void put_rest(const struct hang_view *v, const struct hang_sides *sides,
                     enum dt_hang_class class, int named, struct dt_buf *out)
{
    int more = 0;
    for (size_t i = 0; i < v->camps.len; i++) {
        const struct dt_stance_group *camp = &v->camps.at[i];
        if (camp == sides->culprit || camp == sides->others)
            continue;
        if (named++ < CAMPS_NAMED) {
            dt_buf_put_str(out, "; ");
            put_camp(v, camp, class, false, out);
        } else {
            more += camp->ranks;
        }
    }
    if (more > 0)
        dt_buf_printf(out, "; %d more rank%s elsewhere", more, more == 1 ? "" : "s");
}

static void put_all(const struct hang_view *v, const struct hang_sides *sides,
                    enum dt_hang_class class, dt_ms still, struct dt_buf *out)
{
    char time[32];
    bool both = sides->culprit && sides->others;
    dt_ms shown = still > DT_SECOND ? still - still % DT_SECOND : still;
    dt_buf_printf(
        out, "the job has stood still for %s: ", dt_str_from_duration(shown, time, sizeof time));
    if (sides->culprit)
        put_camp(v, sides->culprit, class, true, out);
    if (sides->others) {
        dt_buf_put_str(out, both ? "; " : "");
        put_camp(v, sides->others, class, !both, out);
    }
    put_rest(v, sides, class, both ? 2 : 1, out);
    if (class == DT_HANG_KEY && sides->should_set >= 0)
        dt_buf_printf(out, "; rank %d should set the key", sides->should_set);
    if (sides->not_there)
        dt_buf_put_str(out, "; this job has no such rank");
    if (class == DT_HANG_NETWORK)
        dt_buf_put_str(out, "; no rank is missing");
}

/* Cut between two characters. */
static void copy_line(struct dt_buf *from, char *out, size_t size)
{
    size_t n = from->len;
    if (n >= size) {
        n = size - sizeof "...";
        while (n > 0 && (from->at[n] & 0xc0) == 0x80)
            n--;
    }
    snprintf(out, size, "%.*s%s", (int)n, dt_buf_cstr(from), n < from->len ? "..." : "");
}

void hang_put_sentence(const struct hang_view *v, const struct hang_sides *sides,
                       enum dt_hang_class class, dt_ms still, char *out, size_t size)
{
    struct dt_buf line = {0};
    put_all(v, sides, class, still, &line);
    copy_line(&line, out, size);
    dt_buf_finish(&line);
}
