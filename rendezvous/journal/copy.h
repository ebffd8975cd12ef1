/* SPDX-License-Identifier: Apache-2.0 */
/* Ranges of one file put one behind the other into a second, and where each byte is there. Growing
 * and asking belong to one thread, running may be another's. */
#ifndef DT_RENDEZVOUS_JOURNAL_COPY_H
#define DT_RENDEZVOUS_JOURNAL_COPY_H

#include <stddef.h>
#include <stdint.h>

struct dt_journal_range {
    uint64_t from, len, to;
};

struct dt_journal_copy {
    int from, to;                    /* files */
    struct dt_journal_range *ranges; /* by `from` */
    size_t count, size, copied;
    uint64_t end; /* of the second file when all is copied */
};

void dt_journal_copy_finish(struct dt_journal_copy *c);

/* FROM is behind all that was added before. -1: no memory. */
int dt_journal_copy_add(struct dt_journal_copy *c, uint64_t from, uint64_t len);

/* Copies what was not copied yet. 0, or an errno value. */
int dt_journal_copy_run(struct dt_journal_copy *c);

/* Where byte AT of the first file is in the second. *CURSOR is 0 at first; AT grows from call to
 * call, and was copied. */
uint64_t dt_journal_copy_place(const struct dt_journal_copy *c, uint64_t at, size_t *cursor);

#endif
