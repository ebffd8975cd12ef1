/* SPDX-License-Identifier: Apache-2.0 */
#include "rendezvous/events/chronicle.h"

#include <stdlib.h>
#include <string.h>

/* An event in one allocation, its strings behind it. */
struct dt_chronicle_entry {
    struct dt_event event;
    size_t size; /* of it all */
    char strings[];
};

int dt_chronicle_init(struct dt_chronicle *c)
{
    *c = (struct dt_chronicle){.ring =
                                   calloc(DT_CHRONICLE_MOST, sizeof(struct dt_chronicle_entry *))};
    dt_list_init(&c->followers);
    return c->ring ? 0 : -1;
}

static struct dt_chronicle_entry *entry_at(const struct dt_chronicle *c, size_t i)
{
    return c->ring[(c->first + i) % DT_CHRONICLE_MOST];
}

static void drop_oldest(struct dt_chronicle *c)
{
    struct dt_chronicle_entry *oldest = entry_at(c, 0);
    c->bytes -= oldest->size;
    c->first = (c->first + 1) % DT_CHRONICLE_MOST;
    c->len--;
    free(oldest);
}

void dt_chronicle_finish(struct dt_chronicle *c)
{
    while (c->ring && dt_list_pop(&c->followers))
        ;
    while (c->len > 0)
        drop_oldest(c);
    free(c->ring);
    *c = (struct dt_chronicle){0};
}

static size_t size_of(const char *text)
{
    return text ? strlen(text) + 1 : 0;
}

/* Copies TEXT to *AT, behind what stands there. */
static const char *keep(const char *text, char **at)
{
    char *copy = *at;
    if (!text)
        return NULL;
    memcpy(copy, text, size_of(text));
    *at += size_of(text);
    return copy;
}

static struct dt_chronicle_entry *entry_create(const struct dt_event *e)
{
    size_t size =
        sizeof(struct dt_chronicle_entry) + size_of(e->run) + size_of(e->node) + size_of(e->words);
    struct dt_chronicle_entry *entry = malloc(size);
    if (!entry)
        return NULL;
    char *at = entry->strings;
    entry->size = size;
    entry->event = *e;
    entry->event.run = keep(e->run, &at);
    entry->event.node = keep(e->node, &at);
    entry->event.words = keep(e->words, &at);
    return entry;
}

/* Room is made before, so that a chronicle of one event larger than all bytes has that one. */
static void append(struct dt_chronicle *c, struct dt_chronicle_entry *entry)
{
    while (c->len > 0 &&
           (c->len == DT_CHRONICLE_MOST || c->bytes + entry->size > DT_CHRONICLE_MOST_BYTES))
        drop_oldest(c);
    c->ring[(c->first + c->len) % DT_CHRONICLE_MOST] = entry;
    c->len++;
    c->bytes += entry->size;
}

static bool keep_copy(struct dt_chronicle *c, const struct dt_event *e)
{
    struct dt_chronicle_entry *entry = entry_create(e);
    if (entry)
        append(c, entry);
    return entry != NULL;
}

bool dt_chronicle_restore(struct dt_chronicle *c, const struct dt_event *e)
{
    if (e->number <= c->last)
        return false;
    c->last = e->number;
    return keep_copy(c, e);
}

void dt_chronicle_add(struct dt_chronicle *c, struct dt_event *e)
{
    e->number = ++c->last;
    keep_copy(c, e);
    dt_list_each(&c->followers, n)
    {
        struct dt_chronicle_follower *f = dt_container_of(n, struct dt_chronicle_follower, in_all);
        f->on_event(f, e);
    }
}

const struct dt_event *dt_chronicle_after(const struct dt_chronicle *c, uint64_t number)
{
    size_t low = 0, high = c->len; /* all before LOW are too old, all from HIGH on are not */
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (entry_at(c, middle)->event.number > number)
            high = middle;
        else
            low = middle + 1;
    }
    return low < c->len ? &entry_at(c, low)->event : NULL;
}

uint64_t dt_chronicle_before_start(const struct dt_chronicle *c)
{
    const struct dt_event *e;
    uint64_t before = 0;
    for (uint64_t at = 0; (e = dt_chronicle_after(c, at)); at = e->number)
        if (e->kind == DT_EVENT_SERVER_STARTED)
            before = e->number - 1;
    return before;
}

void dt_chronicle_follow(struct dt_chronicle *c, struct dt_chronicle_follower *f)
{
    dt_list_append(&c->followers, &f->in_all);
}

void dt_chronicle_unfollow(struct dt_chronicle_follower *f)
{
    if (f->in_all.next)
        dt_list_remove(&f->in_all);
}
