/* SPDX-License-Identifier: Apache-2.0 */
/* First it is settled who is in, then where they sit, in the order of who has most right to a seat:
 * survivors, those who are back, spares of a lost node's domain, anybody. Each step takes from what
 * the ones before left. */
#include "rendezvous/rdzv/seats.h"

#include <stdlib.h>
#include <string.h>

#define OUT (-1)
#define WAITS (-2) /* is in, and gets a seat in a later step */

typedef const char *key_fn(const struct dt_seat_candidate *c);

struct plan {
    struct dt_seat_candidate **at; /* by seat; NULL: a hole */
    size_t seats;
    size_t lowest; /* no hole is below */
    struct dt_seat_candidate **survivors;
    size_t survivors_len;
    struct dt_seat_candidate **others; /* behind the survivors, in the order a step wants */
    size_t others_len;
    size_t *used; /* by the place in OTHERS where a key begins: see take_of() */
    struct dt_seat_candidate **homeless; /* they have lost their seats, the first in line first */
    size_t homeless_len;
    size_t left[2]; /* seats for those who are no last resort, and for those who are */
    const struct dt_seat_memory *last;
    size_t last_len;
};

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Takes a number off both; compares by length first, so it may have any number of digits. */
static int compare_numbers(const char **a, const char **b)
{
    *a += strspn(*a, "0");
    *b += strspn(*b, "0");
    size_t a_len = strspn(*a, "0123456789"), b_len = strspn(*b, "0123456789");
    int by = a_len != b_len ? (a_len > b_len) - (a_len < b_len) : memcmp(*a, *b, a_len);
    *a += a_len;
    *b += b_len;
    return by;
}

int dt_seats_compare_names(const char *a, const char *b)
{
    const char *whole_a = a, *whole_b = b;
    while (*a && *b) {
        int by;
        if (is_digit(*a) && is_digit(*b))
            by = compare_numbers(&a, &b);
        else
            by = (unsigned char)*a++ - (unsigned char)*b++;
        if (by != 0)
            return by;
    }
    if (*a || *b)
        return *a ? 1 : -1;
    return strcmp(whole_a, whole_b); /* "node1" and "node01" are two nodes */
}

static const struct dt_seat_candidate *candidate(const void *p)
{
    return *(struct dt_seat_candidate *const *)p;
}

static int compare_coming(const void *a, const void *b)
{
    const struct dt_seat_candidate *x = candidate(a), *y = candidate(b);
    if (x->came != y->came)
        return x->came > y->came ? 1 : -1;
    return (x->id > y->id) - (x->id < y->id);
}

static int compare_last_seats(const void *a, const void *b)
{
    const struct dt_seat_candidate *x = candidate(a), *y = candidate(b);
    if (x->last_seat != y->last_seat)
        return x->last_seat > y->last_seat ? 1 : -1;
    return compare_coming(a, b);
}

static int compare_wishes(const void *a, const void *b)
{
    const struct dt_seat_candidate *x = candidate(a), *y = candidate(b);
    if ((x->order < 0) != (y->order < 0))
        return x->order < 0 ? 1 : -1;
    if (x->order >= 0 && x->order != y->order)
        return x->order > y->order ? 1 : -1;
    int by = dt_seats_compare_names(x->domain, y->domain);
    if (by == 0)
        by = dt_seats_compare_names(x->name, y->name);
    return by ? by : compare_coming(a, b);
}

static const char *name_of(const struct dt_seat_candidate *c)
{
    return c->name;
}

static const char *domain_of(const struct dt_seat_candidate *c)
{
    return c->domain;
}

/* Among those with one name, or of one domain, the better one is first. */
static int compare_keys(const void *a, const void *b, key_fn *key)
{
    const struct dt_seat_candidate *x = candidate(a), *y = candidate(b);
    int by = strcmp(key(x), key(y));
    if (by == 0)
        by = x->last_resort - y->last_resort;
    return by ? by : compare_coming(a, b);
}

static int compare_by_name(const void *a, const void *b)
{
    return compare_keys(a, b, name_of);
}

static int compare_by_domain(const void *a, const void *b)
{
    return compare_keys(a, b, domain_of);
}

static void sort(struct dt_seat_candidate **list, size_t len,
                 int (*compare)(const void *, const void *))
{
    qsort(list, len, sizeof(struct dt_seat_candidate *), compare);
}

static bool admit(struct plan *p, struct dt_seat_candidate *c)
{
    if (c->seat != OUT || p->left[c->last_resort] == 0)
        return false;
    p->left[c->last_resort]--;
    c->seat = WAITS;
    return true;
}

static void sit(struct plan *p, struct dt_seat_candidate *c, size_t seat)
{
    p->at[seat] = c;
    c->seat = (int)seat;
}

/* HOME may be beyond the world, which has shrunk. */
static void go_home(struct plan *p, struct dt_seat_candidate *c, size_t home)
{
    if (home < p->seats && !p->at[home])
        sit(p, c, home);
    else
        p->homeless[p->homeless_len++] = c;
}

static void fill_lowest_holes(struct plan *p, struct dt_seat_candidate **list, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        while (p->at[p->lowest])
            p->lowest++;
        sit(p, list[i], p->lowest);
    }
}

/* Where KEY begins in OTHERS, which are sorted by it. */
static size_t find(const struct plan *p, const char *key, key_fn *key_of)
{
    size_t from = 0, to = p->others_len;
    while (from < to) {
        size_t middle = from + (to - from) / 2;
        if (strcmp(key_of(p->others[middle]), key) < 0)
            from = middle + 1;
        else
            to = middle;
    }
    return from;
}

/* Admits the best of those with KEY, or answers NULL. Who was looked at is not looked at again: it
 * is in, or there is no seat for its like any more. */
static struct dt_seat_candidate *take_of(struct plan *p, const char *key, key_fn *key_of)
{
    size_t begin = *key ? find(p, key, key_of) : p->others_len;
    if (begin == p->others_len)
        return NULL;
    for (size_t i = begin + p->used[begin]; i < p->others_len; i++) {
        struct dt_seat_candidate *c = p->others[i];
        if (strcmp(key_of(c), key) != 0)
            break;
        p->used[begin]++;
        if (admit(p, c))
            return c;
    }
    return NULL;
}

static void sort_others(struct plan *p, int (*compare)(const void *, const void *))
{
    sort(p->others, p->others_len, compare);
    memset(p->used, 0, p->others_len * sizeof *p->used);
}

static void seat_survivors(struct plan *p)
{
    sort(p->survivors, p->survivors_len, compare_last_seats);
    for (size_t i = 0; i < p->survivors_len; i++)
        if (admit(p, p->survivors[i]))
            go_home(p, p->survivors[i], (size_t)p->survivors[i]->last_seat);
}

static void seat_who_is_back(struct plan *p)
{
    sort_others(p, compare_by_name);
    for (size_t seat = 0; seat < p->last_len; seat++) {
        struct dt_seat_candidate *c = NULL;
        if (seat >= p->seats || !p->at[seat])
            c = take_of(p, p->last[seat].name, name_of);
        if (c)
            go_home(p, c, seat);
    }
    fill_lowest_holes(p, p->homeless, p->homeless_len);
}

static void seat_neighbours(struct plan *p)
{
    sort_others(p, compare_by_domain);
    for (size_t seat = 0; seat < p->last_len && seat < p->seats; seat++) {
        struct dt_seat_candidate *c = NULL;
        if (!p->at[seat])
            c = take_of(p, p->last[seat].domain, domain_of);
        if (c)
            sit(p, c, seat);
    }
}

/* Who comes first is in, but among those the order is that of the first round. */
static void seat_the_rest(struct plan *p)
{
    size_t len = 0;
    sort(p->others, p->others_len, compare_coming);
    for (size_t i = 0; i < p->others_len; i++)
        if (admit(p, p->others[i]))
            p->others[len++] = p->others[i];
    sort(p->others, len, compare_wishes);
    fill_lowest_holes(p, p->others, len);
}

static void renumber(struct plan *p)
{
    sort(p->at, p->seats, compare_wishes);
    for (size_t seat = 0; seat < p->seats; seat++)
        p->at[seat]->seat = (int)seat;
}

/* Sorts the survivors from the others, and counts what there is to give to whom. */
static void look_at_candidates(struct plan *p, struct dt_seat_candidate *c, size_t count)
{
    size_t good = 0;
    p->others = p->survivors + count;
    for (size_t i = 0; i < count; i++) {
        c[i].seat = OUT;
        good += !c[i].last_resort;
        if (c[i].last_seat >= 0)
            p->survivors[p->survivors_len++] = &c[i];
        else
            *--p->others = &c[i];
    }
    p->others_len = count - p->survivors_len;
    p->left[false] = good < p->seats ? good : p->seats;
    p->left[true] = p->seats - p->left[false];
}

int dt_seats_assign(struct dt_seat_candidate *c, size_t count, size_t target,
                    const struct dt_seat_memory *last, size_t last_count,
                    enum dt_rank_policy policy)
{
    struct plan p = {
        .seats = count < target ? count : target, .last = last, .last_len = last_count};
    p.at = calloc(p.seats + 1, sizeof(struct dt_seat_candidate *));
    p.survivors = calloc(count + 1, sizeof(struct dt_seat_candidate *));
    p.homeless = calloc(count + 1, sizeof(struct dt_seat_candidate *));
    p.used = calloc(count + 1, sizeof *p.used);
    int n = -1;
    if (p.at && p.survivors && p.homeless && p.used) {
        look_at_candidates(&p, c, count);
        seat_survivors(&p);
        seat_who_is_back(&p);
        seat_neighbours(&p);
        seat_the_rest(&p);
        if (policy == DT_RANKS_TORCHRUN)
            renumber(&p);
        n = (int)p.seats;
    }
    free(p.at);
    free(p.survivors);
    free(p.homeless);
    free(p.used);
    return n;
}
