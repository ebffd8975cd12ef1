/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/upload/follow.h"

#include <stdlib.h>
#include <string.h>

#define RETRY_FIRST (10 * DT_SECOND)
#define RETRY_MOST (600 * DT_SECOND)

/* -- what is there ---------------------------------------------------------------------------- */

int dt_follow_scan_add(struct dt_follow_scan *s, const struct dt_follow_file *file,
                       struct dt_err *err)
{
    struct dt_follow_file *more = s->at;
    if ((s->count & (s->count - 1)) == 0) /* at each power of two, twice the room */
        more = reallocarray(s->at, s->count ? 2 * s->count : 1, sizeof *s->at);
    if (more)
        s->at = more;
    char *path = more ? strdup(file->path) : NULL;
    if (!path)
        return dt_err_set(err, DT_E_MEMORY, "no memory for the names of %zu files", s->count);
    s->at[s->count] = *file;
    s->at[s->count++].path = path;
    return 0;
}

void dt_follow_scan_finish(struct dt_follow_scan *s)
{
    for (size_t i = 0; i < s->count; i++)
        free(s->at[i].path);
    free(s->at);
    *s = (struct dt_follow_scan){0};
}

size_t dt_follow_entry_length(const char *path)
{
    return strcspn(path, "/");
}

static int by_entry(const char *a, const char *b)
{
    size_t x = dt_follow_entry_length(a), y = dt_follow_entry_length(b);
    int order = strncmp(a, b, x < y ? x : y);
    return order ? order : (x > y) - (x < y);
}

static int by_time(const void *a, const void *b)
{
    const struct dt_follow_file *x = a, *y = b;
    int order = by_entry(x->path, y->path);
    if (order)
        return order;
    if (x->written_ns != y->written_ns)
        return x->written_ns < y->written_ns ? -1 : 1;
    return strcmp(x->path, y->path);
}

void dt_follow_scan_sort(struct dt_follow_scan *s)
{
    if (s->count)
        qsort(s->at, s->count, sizeof *s->at, by_time);
}

static bool ends_with(const char *name, const char *end)
{
    size_t n = strlen(name), m = strlen(end);
    return n >= m && strcmp(name + n - m, end) == 0;
}

bool dt_follow_is_temporary(const char *name)
{
    static const char *const ends[] = {"~", ".part", ".partial", ".incomplete"};
    if (name[0] == '.' || strncmp(name, "tmp-", 4) == 0 || strstr(name, ".tmp"))
        return true;
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (ends_with(name, ends[i]))
            return true;
    return false;
}

/* -- entries ---------------------------------------------------------------------------------- */

void dt_follow_finish(struct dt_follow *f)
{
    for (size_t i = 0; i < f->count; i++)
        free(f->at[i].name);
    free(f->at);
    *f = (struct dt_follow){0};
}

/* FNV-1a. */
static void mix(uint64_t *mark, const void *bytes, size_t len)
{
    const unsigned char *b = bytes;
    for (size_t i = 0; i < len; i++)
        *mark = (*mark ^ b[i]) * UINT64_C(0x100000001b3);
}

/* Of COUNT files of one entry; never 0. */
static uint64_t mark_of(const struct dt_follow_file *files, size_t count)
{
    uint64_t mark = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < count; i++) {
        mix(&mark, files[i].path, strlen(files[i].path) + 1);
        mix(&mark, &files[i].bytes, sizeof files[i].bytes);
        mix(&mark, &files[i].inode, sizeof files[i].inode);
        mix(&mark, &files[i].written_ns, sizeof files[i].written_ns);
    }
    return mark ? mark : 1;
}

static struct dt_follow_entry *find(struct dt_follow *f, const char *path, struct dt_err *err)
{
    size_t len = dt_follow_entry_length(path);
    for (size_t i = 0; i < f->count; i++)
        if (strncmp(f->at[i].name, path, len) == 0 && f->at[i].name[len] == '\0')
            return &f->at[i];
    struct dt_follow_entry *more = reallocarray(f->at, f->count + 1, sizeof *f->at);
    if (more)
        f->at = more;
    char *name = more ? strndup(path, len) : NULL;
    if (!name) {
        dt_err_set(err, DT_E_MEMORY, "no memory for the names of %zu entries", f->count);
        return NULL;
    }
    f->at[f->count] = (struct dt_follow_entry){.name = name};
    return &f->at[f->count++];
}

static void note(struct dt_follow_entry *e, uint64_t mark, int64_t written_ns, dt_ms now)
{
    e->written_ns = written_ns;
    if (e->mark != mark) {
        e->mark = mark;
        e->since = now;
        e->not_before = 0; /* another state, perhaps one that can be uploaded */
        e->failures = 0;
    }
    e->there = true;
}

/* Nobody remembers entries that are gone. */
static void forget_gone(struct dt_follow *f)
{
    size_t kept = 0;
    for (size_t i = 0; i < f->count; i++) {
        if (f->at[i].there)
            f->at[kept++] = f->at[i];
        else
            free(f->at[i].name);
    }
    f->count = kept;
}

int dt_follow_see(struct dt_follow *f, const struct dt_follow_scan *s, dt_ms now,
                  struct dt_err *err)
{
    for (size_t i = 0; i < f->count; i++)
        f->at[i].there = false;
    for (size_t i = 0, end; i < s->count; i = end) {
        for (end = i + 1; end < s->count && by_entry(s->at[i].path, s->at[end].path) == 0;)
            end++;
        struct dt_follow_entry *e = find(f, s->at[i].path, err);
        if (!e)
            return -1;
        note(e, mark_of(s->at + i, end - i), s->at[end - 1].written_ns, now);
    }
    forget_gone(f);
    return 0;
}

struct dt_follow_entry *dt_follow_next(const struct dt_follow *f, dt_ms now, dt_ms settle)
{
    struct dt_follow_entry *best = NULL;
    for (size_t i = 0; i < f->count; i++) {
        struct dt_follow_entry *e = &f->at[i];
        if (!e->held && e->mark != e->sent && now - e->since >= settle && now >= e->not_before &&
            (!best || e->written_ns > best->written_ns))
            best = e;
    }
    return best;
}

dt_ms dt_follow_waits_since(const struct dt_follow *f, dt_ms now, dt_ms settle)
{
    dt_ms longest = 0;
    for (size_t i = 0; i < f->count; i++) {
        const struct dt_follow_entry *e = &f->at[i];
        bool waits = !e->held && e->mark != e->sent && now - e->since >= settle;
        if (waits && (longest == 0 || e->since + settle < longest))
            longest = e->since + settle;
    }
    return longest;
}

void dt_follow_busy(struct dt_follow_entry *e, dt_ms now)
{
    e->since = now;
    e->not_before = now + 1; /* another one's turn */
}

void dt_follow_hold(struct dt_follow *f, dt_ms now, dt_ms settle)
{
    for (size_t i = 0; i < f->count; i++) {
        struct dt_follow_entry *e = &f->at[i];
        e->held = e->sent && e->mark != e->sent && now - e->since < settle;
    }
}

void dt_follow_hurry(struct dt_follow *f)
{
    for (size_t i = 0; i < f->count; i++)
        f->at[i].not_before = 0;
}

void dt_follow_sent(struct dt_follow_entry *e, uint64_t mark)
{
    e->sent = mark;
    e->failures = 0;
}

void dt_follow_failed(struct dt_follow_entry *e, dt_ms now)
{
    dt_ms pause = RETRY_FIRST;
    for (int i = 0; i < e->failures && pause < RETRY_MOST; i++)
        pause *= 2;
    e->not_before = now + (pause < RETRY_MOST ? pause : RETRY_MOST);
    e->failures++;
}
