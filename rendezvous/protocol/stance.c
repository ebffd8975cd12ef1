/* SPDX-License-Identifier: Apache-2.0 */
#include "rendezvous/protocol/stance.h"

#include "base/utf8.h"
#include "rendezvous/protocol/fields.h"
#include "rendezvous/protocol/spec.h"

#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RANK_MOST (DT_RANKS_MOST - 1)

const char *dt_doing_name(enum dt_doing d)
{
    static const char *const names[DT_DOINGS] = {
        [DT_DOING_UNKNOWN] = "unknown",
        [DT_DOING_STOPPED] = "stopped",
        [DT_DOING_LEFT] = "left",
        [DT_DOING_CHILD] = "child",
        [DT_DOING_COLLECTIVE] = "collective",
        [DT_DOING_STORE] = "store",
        [DT_DOING_COMPILE] = "compile",
        [DT_DOING_COLLECT] = "collect",
        [DT_DOING_SAVE] = "save",
        [DT_DOING_DISK] = "disk",
        [DT_DOING_PIPE] = "pipe",
        [DT_DOING_SOCKET] = "socket",
        [DT_DOING_LOCK] = "lock",
        [DT_DOING_SLEEP] = "sleep",
        [DT_DOING_COMPUTE] = "compute",
        [DT_DOING_WAIT] = "wait",
    };
    return d < DT_DOINGS ? names[d] : "unknown";
}

static const char *doing_name(int d)
{
    return dt_doing_name((enum dt_doing)d);
}

/* clang-format off */
#define AT(member) offsetof(struct dt_stance, member)
#define WORDS(member, size) \
    {.name = #member, .kind = DT_FIELD_TEXT, .optional = true, .at = AT(member), .max = size - 1}
#define WHOLE(name_, member, min_) \
    {.name = name_, .kind = DT_FIELD_INT64, .at = AT(member), .min = min_, .max = DT_FIELD_WHOLE_MAX}
#define LINE(member) \
    {.name = #member, .kind = DT_FIELD_INT, .optional = true, .at = AT(member), .max = INT_MAX}

static const struct dt_field fields[] = {
    {.name = "doing", .kind = DT_FIELD_ENUM, .at = AT(doing), .max = DT_DOINGS, .value_name = doing_name},
    WORDS(where, DT_STANCE_WHERE_MAX),
    WORDS(function, DT_STANCE_FUNCTION_MAX),
    WORDS(collective, DT_STANCE_NAME_MAX),
    WORDS(group, DT_STANCE_NAME_MAX),
    WORDS(shape, DT_STANCE_NAME_MAX),
    WHOLE("sequence", sequence, -1),
    WORDS(keys, DT_STANCE_OBJECT_MAX),
    WORDS(object, DT_STANCE_OBJECT_MAX),
    WORDS(detail, DT_STANCE_OBJECT_MAX),
    LINE(first_line),
    LINE(last_line),
    WHOLE("step", step, -1),
    WHOLE("still_ms", still, 0),
    {0},
};
/* clang-format on */

/* -- one stance ------------------------------------------------------------------------------- */

bool dt_stance_alike(const struct dt_stance *a, const struct dt_stance *b)
{
    return a->doing == b->doing && a->sequence == b->sequence && a->first_line == b->first_line &&
           a->last_line == b->last_line && strcmp(a->where, b->where) == 0 &&
           strcmp(a->function, b->function) == 0 && strcmp(a->collective, b->collective) == 0 &&
           strcmp(a->group, b->group) == 0 && strcmp(a->shape, b->shape) == 0;
}

bool dt_stance_same(const struct dt_stance *a, const struct dt_stance *b)
{
    return dt_stance_alike(a, b) && strcmp(a->keys, b->keys) == 0 &&
           strcmp(a->object, b->object) == 0 && strcmp(a->detail, b->detail) == 0;
}

/* Puts '?' for each character that would steer a terminal, and for each byte that is no UTF-8. */
static void clean_text(char *text)
{
    uint8_t *from = (uint8_t *)text, *to = from, *end = from + strlen(text);
    while (from < end) {
        size_t n = dt_utf8_len(from, (size_t)(end - from)), taken = n ? n : 1;
        if (n && !dt_utf8_steers(from, n)) {
            memmove(to, from, n);
            to += n;
        } else {
            *to++ = '?';
        }
        from += taken;
    }
    *to = '\0';
}

static int64_t between(int64_t v, int64_t min, int64_t otherwise)
{
    return v >= min && v <= DT_FIELD_WHOLE_MAX ? v : otherwise;
}

/* So that what stands in a struct dt_stances can be shown, and sent, as it is. */
static struct dt_stance cleaned(const struct dt_stance *from)
{
    struct dt_stance s = *from;
    for (const struct dt_field *f = fields; f->name; f++)
        if (f->kind == DT_FIELD_TEXT)
            clean_text((char *)&s + f->at);
    if (s.doing >= DT_DOINGS)
        s.doing = DT_DOING_UNKNOWN;
    if (s.first_line < 0 || s.last_line < s.first_line)
        s.first_line = s.last_line = 0;
    s.sequence = between(s.sequence, 0, -1);
    s.step = between(s.step, 0, -1);
    s.still = between(s.still, 0, 0);
    return s;
}

/* -- the ranks of a group --------------------------------------------------------------------- */

static int count(struct dt_rank_range r)
{
    return r.last - r.first + 1;
}

/* Makes room for one more range in front of number AT. */
static int open_range(struct dt_stance_group *g, size_t at, struct dt_rank_range r)
{
    struct dt_rank_range *more = realloc(g->ranges, (g->len + 1) * sizeof *more);
    if (!more)
        return -1;
    memmove(more + at + 1, more + at, (g->len - at) * sizeof *more);
    more[at] = r;
    g->ranges = more;
    g->len++;
    return 0;
}

static void close_range(struct dt_stance_group *g, size_t at)
{
    g->len--;
    memmove(g->ranges + at, g->ranges + at + 1, (g->len - at) * sizeof *g->ranges);
}

/* Takes R out of the range number AT, which it meets. *GONE: nothing is left of that. */
static int cut_range(struct dt_stance_group *g, size_t at, struct dt_rank_range r, bool *gone)
{
    struct dt_rank_range old = g->ranges[at];
    struct dt_rank_range left = {old.first, r.first - 1}, right = {r.last + 1, old.last};
    *gone = count(left) <= 0 && count(right) <= 0;
    if (*gone)
        close_range(g, at);
    else if (count(left) > 0 && count(right) > 0 && open_range(g, at + 1, right) < 0)
        return -1;
    else
        g->ranges[at] = count(left) > 0 ? left : right;
    g->ranks -=
        count(old) - (count(left) > 0 ? count(left) : 0) - (count(right) > 0 ? count(right) : 0);
    return 0;
}

static int cut(struct dt_stance_group *g, struct dt_rank_range r)
{
    bool gone = false;
    for (size_t i = 0; i < g->len && g->ranges[i].first <= r.last; i += !gone) {
        gone = false;
        if (g->ranges[i].last >= r.first && cut_range(g, i, r, &gone) < 0)
            return -1;
    }
    return 0;
}

/* No rank of R is in G. */
static int insert(struct dt_stance_group *g, struct dt_rank_range r)
{
    size_t at = 0;
    while (at < g->len && g->ranges[at].first < r.first)
        at++;
    bool joins_left = at > 0 && g->ranges[at - 1].last + 1 == r.first;
    bool joins_right = at < g->len && g->ranges[at].first - 1 == r.last;
    g->ranks += count(r);
    if (joins_left && joins_right) {
        g->ranges[at - 1].last = g->ranges[at].last;
        close_range(g, at);
    } else if (joins_left) {
        g->ranges[at - 1].last = r.last;
    } else if (joins_right) {
        g->ranges[at].first = r.first;
    } else if (open_range(g, at, r) < 0) {
        g->ranks -= count(r);
        return -1;
    }
    return 0;
}

/* -- all of them ------------------------------------------------------------------------------ */

static int by_first_rank(const void *a, const void *b)
{
    const struct dt_stance_group *x = a, *y = b;
    return (x->ranges[0].first > y->ranges[0].first) - (x->ranges[0].first < y->ranges[0].first);
}

/* Groups that lost their last rank go. */
static void drop_empty(struct dt_stances *s)
{
    size_t n = 0;
    for (size_t i = 0; i < s->len; i++) {
        if (s->at[i].len > 0)
            s->at[n++] = s->at[i];
        else
            free(s->at[i].ranges);
    }
    s->len = n;
}

static void order(struct dt_stances *s)
{
    drop_empty(s);
    if (s->len > 1)
        qsort(s->at, s->len, sizeof *s->at, by_first_rank);
}

static struct dt_stance_group *find(const struct dt_stances *s, const struct dt_stance *stance)
{
    for (size_t i = 0; i < s->len; i++)
        if (dt_stance_same(&s->at[i].stance, stance))
            return &s->at[i];
    return NULL;
}

static struct dt_stance_group *append(struct dt_stances *s, const struct dt_stance *stance)
{
    struct dt_stance_group *more = realloc(s->at, (s->len + 1) * sizeof *more);
    if (!more)
        return NULL;
    s->at = more;
    more[s->len] = (struct dt_stance_group){.stance = *stance};
    return &more[s->len++];
}

/* The least that was told of either. */
static int64_t least_told(int64_t a, int64_t b)
{
    return b >= 0 && (a < 0 || b < a) ? b : a;
}

static struct dt_stance_group *find_or_append(struct dt_stances *s, const struct dt_stance *stance,
                                              size_t most)
{
    struct dt_stance crowded = {.doing = DT_DOING_UNKNOWN,
                                .detail = "too many workers do something else each",
                                .sequence = -1,
                                .step = -1};
    struct dt_stance_group *g = find(s, stance);
    if (!g && s->len + 1 >= most) {
        stance = &crowded;
        g = find(s, stance);
    }
    if (!g)
        return append(s, stance);
    g->stance.step = least_told(g->stance.step, stance->step);
    g->stance.still = stance->still < g->stance.still ? stance->still : g->stance.still;
    return g;
}

/* The caller puts the groups in order. MOST: so many groups there may be. */
static int put(struct dt_stances *s, const struct dt_stance *stance, struct dt_rank_range r,
               size_t most, struct dt_err *err)
{
    struct dt_stance clean = cleaned(stance);
    int rc = 0;
    for (size_t i = 0; i < s->len && rc == 0; i++)
        rc = cut(&s->at[i], r);
    drop_empty(s);
    struct dt_stance_group *g = rc == 0 ? find_or_append(s, &clean, most) : NULL;
    if (!g || insert(g, r) < 0)
        return dt_err_set(err, DT_E_MEMORY, "no memory for what %d workers do", count(r));
    return 0;
}

int dt_stances_add(struct dt_stances *s, const struct dt_stance *stance, int rank,
                   struct dt_err *err)
{
    int rc = put(s, stance, (struct dt_rank_range){rank, rank}, DT_STANCES_MAX, err);
    order(s);
    return rc;
}

int dt_stances_merge(struct dt_stances *s, const struct dt_stances *more, struct dt_err *err)
{
    int rc = 0;
    for (size_t i = 0; i < more->len; i++) {
        const struct dt_stance_group *g = &more->at[i];
        for (size_t k = 0; k < g->len && rc == 0; k++)
            rc = put(s, &g->stance, g->ranges[k], DT_STANCES_ALL_MAX, err);
    }
    order(s);
    return rc;
}

void dt_stances_finish(struct dt_stances *s)
{
    for (size_t i = 0; i < s->len; i++)
        free(s->at[i].ranges);
    free(s->at);
    *s = (struct dt_stances){0};
}

/* -- for people ------------------------------------------------------------------------------- */

/* Two neighbours are two items, not a range. */
static int items_of(struct dt_rank_range r)
{
    return count(r) == 2 ? 2 : 1;
}

/* Appends R. False: there is no room for it, with TAIL behind it. */
static bool put_item(char *out, size_t size, const char *between_items, struct dt_rank_range r,
                     const char *tail)
{
    char item[40];
    size_t n = strlen(out);
    if (r.first == r.last)
        snprintf(item, sizeof item, "%s%d", between_items, r.first);
    else
        snprintf(item, sizeof item, "%s%d to %d", between_items, r.first, r.last);
    if (n + strlen(item) + strlen(tail) >= size)
        return false;
    memcpy(out + n, item, strlen(item) + 1);
    return true;
}

const char *dt_stance_ranks(const struct dt_stance_group *g, char *out, size_t size)
{
    char tail[40];
    int items = 0, at = 0;
    for (size_t i = 0; i < g->len; i++)
        items += items_of(g->ranges[i]);
    snprintf(out, size, "rank%s ", g->ranks == 1 ? "" : "s");
    snprintf(tail, sizeof tail, ", ... (%d in all)", g->ranks);
    for (size_t i = 0; i < g->len; i++) {
        int parts = items_of(g->ranges[i]), each = count(g->ranges[i]) / parts;
        for (int k = 0; k < parts; k++, at++) {
            int first = g->ranges[i].first + k;
            bool last = at + 1 == items;
            if (put_item(out, size,
                         at == 0 ? ""
                         : last  ? " and "
                                 : ", ",
                         (struct dt_rank_range){first, first + each - 1}, last ? "" : tail))
                continue;
            size_t n = strlen(out);
            snprintf(out + n, size - n, "%s", at == 0 ? "..." : tail);
            return out;
        }
    }
    return out;
}

/* -- JSON ------------------------------------------------------------------------------------- */

static void put_field(struct dt_json_writer *w, const struct dt_stance *s, const struct dt_field *f)
{
    const char *text = (const char *)s + f->at;
    bool is_text = f->kind == DT_FIELD_TEXT;
    if (f->optional && (is_text ? !*text : dt_field_number(f, s) == 0))
        return;
    if (f->kind == DT_FIELD_ENUM)
        dt_json_put_text(w, f->name, f->value_name((int)dt_field_number(f, s)));
    else if (is_text)
        dt_json_put_text(w, f->name, text);
    else
        dt_json_put_int(w, f->name, dt_field_number(f, s));
}

static void put_group(struct dt_json_writer *w, const struct dt_stance_group *g)
{
    dt_json_put_object(w, NULL);
    dt_json_put_array(w, "ranks");
    for (size_t i = 0; i < g->len && i < DT_STANCE_RANGES_MAX; i++) {
        dt_json_put_object(w, NULL);
        dt_json_put_int(w, "first", g->ranges[i].first);
        dt_json_put_int(w, "last", g->ranges[i].last);
        dt_json_put_end(w);
    }
    dt_json_put_end(w);
    for (const struct dt_field *f = fields; f->name; f++)
        put_field(w, &g->stance, f);
    dt_json_put_end(w);
}

void dt_stances_put_json(const struct dt_stances *s, const char *name, struct dt_json_writer *w)
{
    dt_json_put_array(w, name);
    for (size_t i = 0; i < s->len; i++)
        put_group(w, &s->at[i]);
    dt_json_put_end(w);
}

static int get_range(const struct dt_json *doc, const struct cJSON *object,
                     struct dt_rank_range *out, struct dt_err *err)
{
    int64_t first, last;
    if (dt_json_int(doc, object, "first", 0, RANK_MOST, &first, err) < 0 ||
        dt_json_int(doc, object, "last", first, RANK_MOST, &last, err) < 0)
        return -1;
    *out = (struct dt_rank_range){(int)first, (int)last};
    return 0;
}

static int get_group(struct dt_stances *s, const struct dt_json *doc, const struct cJSON *object,
                     struct dt_err *err)
{
    struct dt_stance stance = {0};
    const struct cJSON *ranks;
    size_t ranges = 0;
    if (dt_fields_get(doc, object, fields, &stance, err) < 0 ||
        dt_json_array(doc, object, "ranks", &ranks, err) < 0)
        return -1;
    for (const struct cJSON *at = dt_json_first(ranks); at; at = dt_json_next(at)) {
        struct dt_rank_range r;
        if (++ranges > DT_STANCE_RANGES_MAX)
            return dt_err_set(err, DT_E_PROTOCOL, "a stance has over %d ranges of ranks",
                              DT_STANCE_RANGES_MAX);
        if (get_range(doc, at, &r, err) < 0 || put(s, &stance, r, DT_STANCES_ALL_MAX, err) < 0)
            return -1;
    }
    return 0;
}

int dt_stances_get_json(struct dt_stances *s, const struct dt_json *doc, const struct cJSON *array,
                        struct dt_err *err)
{
    size_t groups = 0;
    int rc = 0;
    for (const struct cJSON *at = dt_json_first(array); at && rc == 0; at = dt_json_next(at)) {
        if (++groups > DT_STANCES_ALL_MAX)
            rc = dt_err_set(err, DT_E_PROTOCOL, "over %d stances", DT_STANCES_ALL_MAX);
        else
            rc = get_group(s, doc, at, err);
    }
    order(s);
    return rc;
}
