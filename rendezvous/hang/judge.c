/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that do alike stand in one camp. Camps whose ranks wait for other ranks are told from those
 * outside; then the first rule that holds says what the matter is. */
#include "rendezvous/hang/inside.h"

#include "rendezvous/protocol/store_key.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *dt_hang_class_name(enum dt_hang_class c)
{
    static const char *const names[DT_HANG_CLASSES] = {
        [DT_HANG_NONE] = "none",       [DT_HANG_OUTSIDE] = "outside",
        [DT_HANG_SKIPPED] = "skipped", [DT_HANG_MISMATCH] = "mismatch",
        [DT_HANG_SHAPE] = "shape",     [DT_HANG_LEFT] = "left",
        [DT_HANG_STOPPED] = "stopped", [DT_HANG_CHILD] = "child",
        [DT_HANG_DISK] = "disk",       [DT_HANG_LOCK] = "lock",
        [DT_HANG_KEY] = "key",         [DT_HANG_NETWORK] = "network",
        [DT_HANG_STARVED] = "starved", [DT_HANG_BUSY] = "busy",
        [DT_HANG_LONG] = "long",       [DT_HANG_UNREADABLE] = "unreadable",
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
    enum weight weight;
    enum dt_hang_class class; /* of a hang whose culprit does so */
} meanings[DT_DOINGS] = {
    [DT_DOING_UNKNOWN] = {OUTSIDE, DT_HANG_UNREADABLE},
    [DT_DOING_STOPPED] = {STUCK, DT_HANG_STOPPED},
    [DT_DOING_LEFT] = {STUCK, DT_HANG_LEFT},
    [DT_DOING_CHILD] = {STUCK, DT_HANG_CHILD},
    [DT_DOING_COLLECTIVE] = {WAITS, DT_HANG_NETWORK},
    [DT_DOING_STORE] = {WAITS, DT_HANG_KEY},
    [DT_DOING_COMPILE] = {BUSY, DT_HANG_BUSY},
    [DT_DOING_COLLECT] = {BUSY, DT_HANG_BUSY},
    [DT_DOING_SAVE] = {BUSY, DT_HANG_BUSY},
    [DT_DOING_DISK] = {STUCK, DT_HANG_DISK},
    [DT_DOING_PIPE] = {OUTSIDE, DT_HANG_OUTSIDE},
    [DT_DOING_SOCKET] = {OUTSIDE, DT_HANG_OUTSIDE},
    [DT_DOING_LOCK] = {OUTSIDE, DT_HANG_LOCK},
    [DT_DOING_SLEEP] = {OUTSIDE, DT_HANG_OUTSIDE},
    [DT_DOING_COMPUTE] = {OUTSIDE, DT_HANG_OUTSIDE},
    [DT_DOING_WAIT] = {OUTSIDE, DT_HANG_OUTSIDE},
};

/* -- GPUs ------------------------------------------------------------------------------------- */

/* A program that waits for its GPU looks as if it computed, or waits in the kernel. It most likely
 * does if all ranks count the same calls and nobody has made a later one than it has. */
static bool waits_for_gpu(const struct dt_stances *all, const struct dt_stance *s)
{
    if ((s->doing != DT_DOING_COMPUTE && s->doing != DT_DOING_WAIT) || s->sequence < 0)
        return false;
    for (size_t i = 0; i < all->len; i++) {
        const struct dt_stance *other = &all->at[i].stance;
        if (other->sequence < 0 || other->sequence > s->sequence ||
            strcmp(other->group, s->group) != 0)
            return false;
    }
    return true;
}

/* COPY: room for as many groups; their ranges stay those of ALL. */
static struct dt_stances with_gpus(const struct dt_stances *all, struct dt_stance_group *copy)
{
    for (size_t i = 0; i < all->len; i++) {
        struct dt_stance *s = &copy[i].stance;
        copy[i] = all->at[i];
        if (!waits_for_gpu(all, s))
            continue;
        s->doing = DT_DOING_COLLECTIVE;
        *s->object = '\0';
        snprintf(s->detail, sizeof s->detail, "most likely: the GPU has not ended it");
    }
    return (struct dt_stances){copy, all->len};
}

/* -- camps ------------------------------------------------------------------------------------ */

static int merge_one(struct dt_stances *camps, const struct dt_stance_group *g)
{
    struct dt_stance_group copy = *g;
    *copy.stance.keys = *copy.stance.object = *copy.stance.detail = '\0';
    return dt_stances_merge(camps, &(struct dt_stances){&copy, 1}, NULL);
}

/* The text at AT that all ranks of CAMP share; "" where they differ, or nobody told of some. */
static const char *shared_text(const struct hang_view *v, const struct dt_stance_group *camp,
                               size_t at)
{
    const char *shared = NULL;
    int told = 0;
    for (size_t i = 0; i < v->stances->len; i++) {
        const struct dt_stance *s = &v->stances->at[i].stance;
        const char *text = (const char *)s + at;
        if (!dt_stance_alike(s, &camp->stance))
            continue;
        if (shared && strcmp(shared, text) != 0)
            return "";
        shared = text;
        told += v->stances->at[i].ranks;
    }
    return shared && told == camp->ranks ? shared : "";
}

/* The keys of one rank of CAMP, if all of the others wait for the same; "" they do not. */
static const char *shared_keys(const struct hang_view *v, const struct dt_stance_group *camp)
{
    const char *shared = NULL;
    for (size_t i = 0; i < v->stances->len; i++) {
        const struct dt_stance *s = &v->stances->at[i].stance;
        if (!dt_stance_alike(s, &camp->stance))
            continue;
        if (shared && !dt_store_key_same(shared, s->keys))
            return "";
        shared = shared ? shared : s->keys;
    }
    return shared ? shared : "";
}

static int pitch_camps(struct hang_view *v, int size)
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
        snprintf(s->keys, sizeof s->keys, "%s", shared_keys(v, camp));
        snprintf(s->object, sizeof s->object, "%s",
                 shared_text(v, camp, offsetof(struct dt_stance, object)));
        snprintf(s->detail, sizeof s->detail, "%s",
                 shared_text(v, camp, offsetof(struct dt_stance, detail)));
    }
    return rc;
}

int hang_index_of(const struct hang_view *v, const struct dt_stance_group *camp)
{
    for (size_t i = 0; camp && i < v->stances->len; i++)
        if (dt_stance_alike(&v->stances->at[i].stance, &camp->stance))
            return (int)i;
    return -1;
}

static enum weight weight_of(const struct dt_stance_group *camp)
{
    return meanings[camp->stance.doing].weight;
}

static bool is_unknown(const struct dt_stance_group *camp)
{
    return camp->stance.doing == DT_DOING_UNKNOWN;
}

static bool is_outside(const struct dt_stance_group *camp)
{
    return !is_unknown(camp) && weight_of(camp) != WAITS;
}

static void count_ranks(struct hang_view *v)
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

static const struct dt_stance_group *largest(const struct hang_view *v, camp_test *is,
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
static const struct dt_stance_group *most_telling(const struct hang_view *v)
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

static const struct dt_stance_group *camp_of(const struct hang_view *v, int rank)
{
    for (size_t i = 0; i < v->camps.len; i++)
        for (size_t k = 0; k < v->camps.at[i].len; k++)
            if (v->camps.at[i].ranges[k].first <= rank && rank <= v->camps.at[i].ranges[k].last)
                return &v->camps.at[i];
    return NULL;
}

/* Whether all who are outside do the same, wherever. */
static bool all_do(const struct hang_view *v, enum dt_doing doing)
{
    for (size_t i = 0; i < v->camps.len; i++)
        if (is_outside(&v->camps.at[i]) && v->camps.at[i].stance.doing != doing)
            return false;
    return true;
}

/* -- somebody is outside ---------------------------------------------------------------------- */

/* Nobody waits for anybody, as far as is known: then a minority is all that stands out. */
static enum dt_hang_class judge_each_alone(const struct hang_view *v, struct hang_sides *sides,
                                           bool *guilty)
{
    enum dt_doing doing = sides->culprit->stance.doing;
    sides->others = largest(v, is_outside, sides->culprit);
    *guilty = doing == DT_DOING_STOPPED || (v->outside == 1 && weight_of(sides->culprit) == STUCK);
    if (v->outside > 1 && all_do(v, doing) && (doing == DT_DOING_CHILD || doing == DT_DOING_PIPE))
        return DT_HANG_STARVED;
    if (v->outside > 1 && all_do(v, doing) && doing == DT_DOING_SOCKET)
        return DT_HANG_NETWORK;
    return meanings[doing].class;
}

/* Those who wait may be the odd ones, where they are fewer. */
static enum dt_hang_class judge_outside(const struct hang_view *v, struct hang_sides *sides,
                                        bool *guilty)
{
    sides->culprit = most_telling(v);
    sides->others = largest(v, is_waiting, NULL);
    if (!sides->others)
        return judge_each_alone(v, sides, guilty);
    const struct dt_stance_group *setter =
        sides->should_set >= 0 ? camp_of(v, sides->should_set) : NULL;
    if (setter && is_outside(setter) && weight_of(sides->culprit) != STUCK)
        sides->culprit = setter;
    if (sides->culprit->stance.last_line > 0)
        return DT_HANG_LONG;
    enum weight weight = weight_of(sides->culprit);
    *guilty = sides->culprit->stance.doing == DT_DOING_STOPPED ||
              (weight == STUCK && v->outside <= v->waiting) ||
              (weight == OUTSIDE && v->outside < v->waiting);
    enum dt_hang_class class = meanings[sides->culprit->stance.doing].class;
    return class == DT_HANG_OUTSIDE && sides->others->stance.doing == DT_DOING_STORE ? DT_HANG_KEY
                                                                                     : class;
}

/* -- all wait --------------------------------------------------------------------------------- */

/* Also inside a collective, whose ranks find each other by the store. */
static bool is_at_store(const struct dt_stance_group *camp)
{
    return camp->stance.doing == DT_DOING_STORE || *camp->stance.keys;
}

/* Outside of any collective, for a key of its own. */
static bool asks_store(const struct dt_stance_group *camp)
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
static enum dt_hang_class judge_calls(const struct hang_view *v, struct hang_sides *sides,
                                      bool *guilty)
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

/* Where ranks find each other: one is missing that nobody knows of, or they disagree on who is to
 * come. */
static bool is_meeting(const struct dt_stance_group *camp)
{
    return strcmp(camp->stance.collective, "init_process_group") == 0 ||
           strcmp(camp->stance.collective, "new_group") == 0;
}

static enum dt_hang_class judge_waiting(const struct hang_view *v, struct hang_sides *sides,
                                        bool *guilty)
{
    sides->others = largest(v, is_waiting, NULL);
    const struct dt_stance_group *setter =
        sides->should_set >= 0 ? camp_of(v, sides->should_set) : NULL;
    if (setter && largest(v, is_at_store, NULL))
        sides->others = largest(v, is_at_store, NULL);
    if (is_at_store(sides->others)) {
        sides->culprit = setter != sides->others ? setter : NULL;
        return DT_HANG_KEY;
    }
    const struct dt_stance_group *asks = largest(v, asks_store, NULL);
    if (asks) {
        sides->culprit = asks;
        return DT_HANG_KEY;
    }
    enum dt_hang_class class = judge_calls(v, sides, guilty);
    if (class != DT_HANG_NONE)
        return class;
    if (v->unknown == 0)
        return is_meeting(sides->others) ? DT_HANG_KEY : DT_HANG_NETWORK;
    sides->culprit = largest(v, is_unknown, NULL);
    return DT_HANG_UNREADABLE;
}

/* The rank for whose key most ranks wait; -1: they wait for none that names one. */
static int find_setter(const struct hang_view *v)
{
    int setter = -1, most = 0;
    for (size_t i = 0; i < v->stances->len; i++) {
        const struct dt_stance_group *g = &v->stances->at[i];
        int names = dt_store_key_setter(g->stance.keys);
        if (names < 0 || g->ranks <= most)
            continue;
        setter = names;
        most = g->ranks;
    }
    return setter;
}

static enum dt_hang_class judge(const struct hang_view *v, int size, struct hang_sides *sides,
                                bool *guilty)
{
    sides->should_set = find_setter(v);
    sides->not_there = sides->should_set >= size;
    if (sides->not_there)
        sides->should_set = -1;
    if (v->outside > 0)
        return judge_outside(v, sides, guilty);
    if (v->waiting > 0)
        return judge_waiting(v, sides, guilty);
    sides->culprit = largest(v, is_unknown, NULL);
    return sides->culprit ? DT_HANG_UNREADABLE : DT_HANG_NONE;
}

void dt_hang_judge(const struct dt_stances *stances, int size, dt_ms still,
                   struct dt_hang_finding *out)
{
    struct dt_stance_group *copy = calloc(stances->len + 1, sizeof *copy);
    struct dt_stances known = {0};
    struct hang_view v = {.stances = &known};
    struct hang_sides sides = {.should_set = -1};
    *out = (struct dt_hang_finding){.culprit = -1, .waiting = -1};
    if (copy)
        known = with_gpus(stances, copy);
    if (copy && pitch_camps(&v, size) == 0 && v.camps.len > 0) {
        count_ranks(&v);
        out->class = judge(&v, size, &sides, &out->guilty);
        out->culprit = hang_index_of(&v, sides.culprit);
        out->waiting = hang_index_of(&v, sides.others);
        hang_put_sentence(&v, &sides, out->class, still, out->sentence, sizeof out->sentence);
        snprintf(out->advice, sizeof out->advice, "%s", hang_advice(out->class));
    }
    dt_stances_finish(&v.camps);
    free(copy);
}
