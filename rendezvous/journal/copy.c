/* SPDX-License-Identifier: Apache-2.0 */
#include "rendezvous/journal/copy.h"

#include "base/auto.h"
#include "rendezvous/journal/folder.h"

#include <errno.h>

#define STEP ((size_t)256 << 10)

void dt_journal_copy_finish(struct dt_journal_copy *c)
{
    free(c->ranges);
    *c = (struct dt_journal_copy){.from = -1, .to = -1};
}

static int grow(struct dt_journal_copy *c)
{
    size_t size = c->size ? 2 * c->size : 64;
    struct dt_journal_range *ranges = realloc(c->ranges, size * sizeof *ranges);
    if (!ranges)
        return -1;
    c->ranges = ranges;
    c->size = size;
    return 0;
}

int dt_journal_copy_add(struct dt_journal_copy *c, uint64_t from, uint64_t len)
{
    struct dt_journal_range *last = c->count > c->copied ? &c->ranges[c->count - 1] : NULL;
    if (last && last->from + last->len == from) {
        last->len += len;
    } else {
        if (c->count == c->size && grow(c) < 0)
            return -1;
        c->ranges[c->count++] = (struct dt_journal_range){from, len, c->end};
    }
    c->end += len;
    return 0;
}

static int copy_range(const struct dt_journal_copy *c, const struct dt_journal_range *r,
                      uint8_t *between)
{
    for (uint64_t done = 0; done < r->len;) {
        size_t step = r->len - done < STEP ? (size_t)(r->len - done) : STEP;
        ssize_t n = pread(c->from, between, step, (off_t)(r->from + done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? errno : EIO; /* the file is shorter than what was written to it */
        int rc = dt_journal_write_at(c->to, between, (size_t)n, r->to + done);
        if (rc)
            return rc;
        done += (uint64_t)n;
    }
    return 0;
}

int dt_journal_copy_run(struct dt_journal_copy *c)
{
    DT_AUTO_FREE uint8_t *between = malloc(STEP);
    if (!between)
        return ENOMEM;
    for (; c->copied < c->count; c->copied++) {
        int rc = copy_range(c, &c->ranges[c->copied], between);
        if (rc)
            return rc;
    }
    return 0;
}

uint64_t dt_journal_copy_place(const struct dt_journal_copy *c, uint64_t at, size_t *cursor)
{
    while (at >= c->ranges[*cursor].from + c->ranges[*cursor].len)
        ++*cursor;
    return c->ranges[*cursor].to + (at - c->ranges[*cursor].from);
}
