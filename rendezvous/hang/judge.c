/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that do alike stand in one camp. Camps whose ranks wait for other ranks are told from those
 * outside; then the first rule that holds says what the matter is. The sentence names the camps,
 * the culprit's first. */
#include "rendezvous/hang/judge.h"

#include "base/str.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CAMPS_NAMED 4 /* in a sentence */
#define RANKS_TEXT 96

const char *dt_hang_class_name(enum dt_hang_class c)
{
    static const char *const names[DT_HANG_CLASSES] = {
        [DT_HANG_NONE] = "none",
        [DT_HANG_OUTSIDE] = "outside",
        [DT_HANG_SKIPPED] = "skipped",
        [DT_HANG_MISMATCH] = "mismatch",
        [DT_HANG_SHAPE] = "shape",
        [DT_HANG_LEFT] = "left",
        [DT_HANG_STOPPED] = "stopped",
        [DT_HANG_CHILD] = "child",
        [DT_HANG_DISK] = "disk",
        [DT_HANG_LOCK] = "lock",
        [DT_HANG_KEY] = "key",
        [DT_HANG_NETWORK] = "network",
        [DT_HANG_STARVED] = "starved",
        [DT_HANG_BUSY] = "busy",
        [DT_HANG_UNREADABLE] = "unreadable",
    };
    return c < DT_HANG_CLASSES ? names[c] : "unknown";
}

/* -- what each doing means -------------------------------------------------------------------- */

/* How much a rank outside has to do with it. */
enum weight {
    WAITS,   /* for other ranks: never guilty */
    BUSY,    /* with what takes its time and ends */
    OUTSIDE, /* somewhere else */
    STUCK,   /* in what by itself explains a hang */
};

static const struct {
    const char *one, *many; /* "rank 2 sleeps", "ranks 2 and 3 sleep" */
    enum weight weight;
    enum dt_hang_class class; /* of a hang whose culprit does so */
} manners[DT_DOINGS] = {
    [DT_DOING_UNKNOWN] = {"could not be looked at", "could not be looked at", OUTSIDE,
                          DT_HANG_UNREADABLE},
    [DT_DOING_STOPPED] = {"is stopped", "are stopped", STUCK, DT_HANG_STOPPED},
    [DT_DOING_LEFT] = {"has left", "have left", STUCK, DT_HANG_LEFT},
    [DT_DOING_CHILD] = {"waits for a process of its own", "wait for processes of their own", STUCK,
                        DT_HANG_CHILD},
    [DT_DOING_COLLECTIVE] = {"waits", "wait", WAITS, DT_HANG_NETWORK},
    [DT_DOING_STORE] = {"waits for the job's store", "wait for the job's store", WAITS,
                        DT_HANG_KEY},
    [DT_DOING_COMPILE] = {"compiles", "compile", BUSY, DT_HANG_BUSY},
    [DT_DOING_COLLECT] = {"collects garbage", "collect garbage", BUSY, DT_HANG_BUSY},
    [DT_DOING_SAVE] = {"writes a checkpoint", "write a checkpoint", BUSY, DT_HANG_BUSY},
    [DT_DOING_DISK] = {"waits for a disk", "wait for a disk", STUCK, DT_HANG_DISK},
    [DT_DOING_PIPE] = {"waits for a pipe", "wait for a pipe", OUTSIDE, DT_HANG_OUTSIDE},
    [DT_DOING_SOCKET] = {"waits for a peer", "wait for a peer", OUTSIDE, DT_HANG_OUTSIDE},
    [DT_DOING_LOCK] = {"waits for a thread of its own", "wait for threads of their own", OUTSIDE,
                       DT_HANG_LOCK},
    [DT_DOING_SLEEP] = {"sleeps", "sleep", OUTSIDE, DT_HANG_OUTSIDE},
    [DT_DOING_COMPUTE] = {"computes", "compute", OUTSIDE, DT_HANG_OUTSIDE},
    [DT_DOING_WAIT] = {"waits in the kernel", "wait in the kernel", OUTSIDE, DT_HANG_OUTSIDE},
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
    [DT_HANG_UNREADABLE] = "run dtrun --look PID on that node as the user of the job or as root",
};

/* -- camps ------------------------------------------------------------------------------------ */

/* A camp is a group of those who do alike; its OBJECT and DETAIL are those that all of it share.
 * Ranks that nobody told of are UNKNOWN. */
struct view {
    const struct dt_stances *stances;
    struct dt_stances camps;
    int waiting, outside, unknown; /* ranks */
};

/* The camps that the sentence names first. */
struct sides {
    const struct dt_stance_group *culprit, *others; /* NULL: none */
    int should_set;                                 /* the key: a rank; -1: none that is known */
};

static int merge_one(struct dt_stances *camps, const struct dt_stance_group *g)
{
    struct dt_stance_group copy = *g;
    *copy.stance.object = *copy.stance.detail = '\0';
    return dt_stances_merge(camps, &(struct dt_stances){&copy, 1}, NULL);
}

/* The text at AT that all stances of CAMP share; "" where they differ. */
static const char *shared_text(const struct view *v, const struct dt_stance_group *camp, size_t at)
{
    const char *shared = NULL;
    for (size_t i = 0; i < v->stances->len; i++) {
        const struct dt_stance *s = &v->stances->at[i].stance;
        const char *text = (const char *)s + at;
        if (!dt_stance_alike(s, &camp->stance))
            continue;
        if (shared && strcmp(shared, text) != 0)
            return "";
        shared = text;
    }
    return shared ? shared : "";
}

static int pitch_camps(struct view *v, int size)
{
    struct dt_rank_range all = {0, size - 1};
    struct dt_stance_group nobody_told = {
        .stance = {.doing = DT_DOING_UNKNOWN, .sequence = -1, .step = -1},
        .ranges = &all,
        .len = 1,
        .ranks = size};
    int rc = size > 0 ? merge_one(&v->camps, &nobody_told) : 0;
    for (size_t i = 0; i < v->stances->len && rc == 0; i++)
        rc = merge_one(&v->camps, &v->stances->at[i]);
    for (size_t i = 0; i < v->camps.len; i++) {
        struct dt_stance_group *camp = &v->camps.at[i];
        struct dt_stance *s = &camp->stance;
        snprintf(s->object, sizeof s->object, "%s",
                 shared_text(v, camp, offsetof(struct dt_stance, object)));
        snprintf(s->detail, sizeof s->detail, "%s",
                 shared_text(v, camp, offsetof(struct dt_stance, detail)));
    }
    return rc;
}

static enum weight weight_of(const struct dt_stance_group *camp)
{
    return manners[camp->stance.doing].weight;
}

static bool is_unknown(const struct dt_stance_group *camp)
{
    return camp->stance.doing == DT_DOING_UNKNOWN;
}

static bool is_outside(const struct dt_stance_group *camp)
{
    return !is_unknown(camp) && weight_of(camp) != WAITS;
}

static void count_ranks(struct view *v)
{
    for (size_t i = 0; i < v->camps.len; i++) {
        const struct dt_stance_group *camp = &v->camps.at[i];
        if (is_unknown(camp))
            v->unknown += camp->ranks;
        else if (is_outside(camp))
            v->outside += camp->ranks;
        else
            v->waiting += camp->ranks;
    }
}

/* -- who is compared with whom ---------------------------------------------------------------- */

typedef bool camp_test(const struct dt_stance_group *camp);

static bool is_waiting(const struct dt_stance_group *camp)
{
    return weight_of(camp) == WAITS;
}

static const struct dt_stance_group *largest(const struct view *v, camp_test *is,
                                             const struct dt_stance_group *but)
{
    const struct dt_stance_group *best = NULL;
    for (size_t i = 0; i < v->camps.len; i++) {
        const struct dt_stance_group *camp = &v->camps.at[i];
        if (camp != but && is(camp) && (!best || camp->ranks > best->ranks))
            best = camp;
    }
    return best;
}

/* The camp outside that explains most: by its weight, then the smallest. */
static const struct dt_stance_group *most_telling(const struct view *v)
{
    const struct dt_stance_group *best = NULL;
    for (size_t i = 0; i < v->camps.len; i++) {
        const struct dt_stance_group *camp = &v->camps.at[i];
        if (is_outside(camp) && (!best || weight_of(camp) > weight_of(best) ||
                                 (weight_of(camp) == weight_of(best) && camp->ranks < best->ranks)))
            best = camp;
    }
    return best;
}

static const struct dt_stance_group *camp_of(const struct view *v, int rank)
{
    for (size_t i = 0; i < v->camps.len; i++)
        for (size_t k = 0; k < v->camps.at[i].len; k++)
            if (v->camps.at[i].ranges[k].first <= rank && rank <= v->camps.at[i].ranges[k].last)
                return &v->camps.at[i];
    return NULL;
}

/* Whether all who are outside do the same, wherever. */
static bool all_do(const struct view *v, enum dt_doing doing)
{
    for (size_t i = 0; i < v->camps.len; i++)
        if (is_outside(&v->camps.at[i]) && v->camps.at[i].stance.doing != doing)
            return false;
    return true;
}

/* -- somebody is outside ---------------------------------------------------------------------- */

/* Nobody waits for anybody, as far as is known: then a minority is all that stands out. */
static enum dt_hang_class judge_each_alone(const struct view *v, struct sides *sides, bool *guilty)
{
    enum dt_doing doing = sides->culprit->stance.doing;
    sides->others = largest(v, is_outside, sides->culprit);
    *guilty = doing == DT_DOING_STOPPED || (v->outside == 1 && weight_of(sides->culprit) == STUCK);
    if (v->outside > 1 && all_do(v, doing) && (doing == DT_DOING_CHILD || doing == DT_DOING_PIPE))
        return DT_HANG_STARVED;
    if (v->outside > 1 && all_do(v, doing) && doing == DT_DOING_SOCKET)
        return DT_HANG_NETWORK;
    return manners[doing].class;
}

/* Those who wait may be the odd ones, where they are fewer. */
static enum dt_hang_class judge_outside(const struct view *v, struct sides *sides, bool *guilty)
{
    sides->culprit = most_telling(v);
    sides->others = largest(v, is_waiting, NULL);
    if (!sides->others)
        return judge_each_alone(v, sides, guilty);
    const struct dt_stance_group *setter =
        sides->should_set >= 0 ? camp_of(v, sides->should_set) : NULL;
    if (setter && is_outside(setter) && weight_of(sides->culprit) != STUCK)
        sides->culprit = setter;
    enum weight weight = weight_of(sides->culprit);
    *guilty = sides->culprit->stance.doing == DT_DOING_STOPPED ||
              (weight == STUCK && v->outside <= v->waiting) ||
              (weight == OUTSIDE && v->outside < v->waiting);
    enum dt_hang_class class = manners[sides->culprit->stance.doing].class;
    return class == DT_HANG_OUTSIDE && sides->others->stance.doing == DT_DOING_STORE ? DT_HANG_KEY
                                                                                     : class;
}

/* -- all wait --------------------------------------------------------------------------------- */

/* "default_pg/0//3" and "rank_3" are set by rank 3; of several keys the first that says so counts.
 */
static int rank_in_key(const char *keys, int size)
{
    for (const char *at = keys; *at;) {
        size_t len = strcspn(at, ", "), digits = 0;
        while (digits < len && at[len - digits - 1] >= '0' && at[len - digits - 1] <= '9')
            digits++;
        const char *number = at + len - digits;
        bool named = digits > 0 && digits < 9 && number > at && strchr("/_", number[-1]);
        if (named && atoi(number) < size)
            return atoi(number);
        at += len + strspn(at + len, ", ");
    }
    return -1;
}

static bool is_at_store(const struct dt_stance_group *camp)
{
    return camp->stance.doing == DT_DOING_STORE;
}

static bool told_apart(const char *a, const char *b)
{
    return *a && *b && strcmp(a, b) != 0;
}

/* Both are known, and they count alike. */
static bool are_numbered(const struct dt_stance *a, const struct dt_stance *b)
{
    return a->sequence >= 0 && b->sequence >= 0 && !told_apart(a->group, b->group);
}

/* Whether the two wait in one and the same collective, as far as is known. */
static bool agree(const struct dt_stance *a, const struct dt_stance *b)
{
    if (a->doing != b->doing || told_apart(a->collective, b->collective) ||
        told_apart(a->shape, b->shape) || told_apart(a->group, b->group))
        return false;
    return are_numbered(a, b) ? a->sequence == b->sequence : !told_apart(a->where, b->where);
}

/* The number behind "FILE:", and how long that is. */
static long line_of(const struct dt_stance *s, size_t *file)
{
    const char *colon = strrchr(s->where, ':');
    *file = colon ? (size_t)(colon - s->where) : 0;
    return colon ? strtol(colon + 1, NULL, 10) : 0;
}

/* Whether A stands further down in the function in which B stands. */
static bool is_past(const struct dt_stance *a, const struct dt_stance *b)
{
    size_t a_file, b_file;
    long a_line = line_of(a, &a_file), b_line = line_of(b, &b_file);
    return a_file > 0 && a_file == b_file && memcmp(a->where, b->where, a_file) == 0 &&
           strcmp(a->function, b->function) == 0 && a_line > b_line;
}

static enum dt_hang_class difference(const struct dt_stance *a, const struct dt_stance *b,
                                     bool either)
{
    if (a->doing != b->doing || told_apart(a->group, b->group))
        return DT_HANG_MISMATCH;
    if (are_numbered(a, b) && a->sequence != b->sequence)
        return DT_HANG_SKIPPED;
    if (!told_apart(a->collective, b->collective) && told_apart(a->shape, b->shape))
        return DT_HANG_SHAPE;
    return is_past(a, b) || (either && is_past(b, a)) ? DT_HANG_SKIPPED : DT_HANG_MISMATCH;
}

/* The smallest camp that is not in the collective of OTHERS becomes the culprit, if those are fewer
 * than who agree. NONE: all agree. */
static enum dt_hang_class judge_calls(const struct view *v, struct sides *sides, bool *guilty)
{
    const struct dt_stance_group *others = sides->others, *odd = NULL;
    int against = 0;
    for (size_t i = 0; i < v->camps.len; i++) {
        const struct dt_stance_group *camp = &v->camps.at[i];
        if (!is_waiting(camp) || agree(&camp->stance, &others->stance))
            continue;
        against += camp->ranks;
        if (!odd || camp->ranks < odd->ranks)
            odd = camp;
    }
    if (!odd)
        return DT_HANG_NONE;
    bool tie = 2 * against >= v->waiting;
    *guilty = !tie && !told_apart(odd->stance.group, others->stance.group);
    sides->culprit = tie ? NULL : odd;
    return difference(&odd->stance, &others->stance, tie);
}

static enum dt_hang_class judge_waiting(const struct view *v, struct sides *sides, bool *guilty)
{
    sides->others = largest(v, is_waiting, NULL);
    const struct dt_stance_group *setter =
        sides->should_set >= 0 ? camp_of(v, sides->should_set) : NULL;
    if (setter)
        sides->others = largest(v, is_at_store, NULL);
    if (is_at_store(sides->others)) {
        sides->culprit = setter != sides->others ? setter : NULL;
        return DT_HANG_KEY;
    }
    enum dt_hang_class class = judge_calls(v, sides, guilty);
    if (class != DT_HANG_NONE || v->unknown == 0)
        return class != DT_HANG_NONE ? class : DT_HANG_NETWORK;
    sides->culprit = largest(v, is_unknown, NULL);
    return DT_HANG_UNREADABLE;
}

static enum dt_hang_class judge(const struct view *v, int size, struct sides *sides, bool *guilty)
{
    const struct dt_stance_group *at_store = largest(v, is_at_store, NULL);
    sides->should_set = at_store ? rank_in_key(at_store->stance.object, size) : -1;
    if (v->outside > 0)
        return judge_outside(v, sides, guilty);
    if (v->waiting > 0)
        return judge_waiting(v, sides, guilty);
    sides->culprit = largest(v, is_unknown, NULL);
    return sides->culprit ? DT_HANG_UNREADABLE : DT_HANG_NONE;
}

/* -- the sentence ----------------------------------------------------------------------------- */

static const char *base_name(const char *where)
{
    const char *slash = strrchr(where, '/');
    return slash ? slash + 1 : where;
}

/* Whether another file in this view ends in the same name. */
static bool is_ambiguous(const struct view *v, const struct dt_stance *s)
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

/* The first stance of that camp. -1: nobody told of it. */
static int index_of(const struct view *v, const struct dt_stance_group *camp)
{
    for (size_t i = 0; camp && i < v->stances->len; i++)
        if (dt_stance_alike(&v->stances->at[i].stance, &camp->stance))
            return (int)i;
    return -1;
}

/* Of a camp in which each has to do with something else, what the first has. */
static void put_example(const struct view *v, const struct dt_stance_group *camp,
                        struct dt_buf *out)
{
    int i = index_of(v, camp);
    if (i >= 0 && *v->stances->at[i].stance.object)
        dt_buf_printf(out, " (rank %d: %s)", v->stances->at[i].ranges[0].first,
                      v->stances->at[i].stance.object);
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

/* "ranks 0, 1 and 3 wait in all_reduce at train.py:11". A culprit's place is told in full. */
static void put_camp(const struct view *v, const struct dt_stance_group *camp,
                     enum dt_hang_class class, bool full, struct dt_buf *out)
{
    const struct dt_stance *s = &camp->stance;
    char ranks[RANKS_TEXT];
    dt_buf_printf(out, "%s %s", dt_stance_ranks(camp, ranks, sizeof ranks),
                  camp->ranks == 1 ? manners[s->doing].one : manners[s->doing].many);
    if (s->doing == DT_DOING_COLLECTIVE)
        put_call(s, class, out);
    if (*s->where)
        dt_buf_printf(out, " at %s", full || is_ambiguous(v, s) ? s->where : base_name(s->where));
    if (full && *s->function && *s->function != '<') /* <module> and <lambda> are no names */
        dt_buf_printf(out, strchr(s->function, ' ') ? " in %s" : " in %s()", s->function);
    if (*s->object)
        dt_buf_printf(out, ": %s", s->object);
    else
        put_example(v, camp, out);
    if (*s->detail)
        dt_buf_printf(out, " (%s)", s->detail);
}

/* The camps beside the two SIDES. */
static void put_rest(const struct view *v, const struct sides *sides, enum dt_hang_class class,
                     int named, struct dt_buf *out)
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

static void put_sentence(const struct view *v, const struct sides *sides, enum dt_hang_class class,
                         dt_ms still, struct dt_buf *out)
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

void dt_hang_judge(const struct dt_stances *stances, int size, dt_ms still,
                   struct dt_hang_finding *out)
{
    struct view v = {.stances = stances};
    struct sides sides = {.should_set = -1};
    struct dt_buf line = {0};
    *out = (struct dt_hang_finding){.culprit = -1, .waiting = -1};
    if (pitch_camps(&v, size) == 0 && v.camps.len > 0) {
        count_ranks(&v);
        out->class = judge(&v, size, &sides, &out->guilty);
        out->culprit = index_of(&v, sides.culprit);
        out->waiting = index_of(&v, sides.others);
        put_sentence(&v, &sides, out->class, still, &line);
        copy_line(&line, out->sentence, sizeof out->sentence);
        snprintf(out->advice, sizeof out->advice, "%s", advice[out->class]);
    }
    dt_buf_finish(&line);
    dt_stances_finish(&v.camps);
}
