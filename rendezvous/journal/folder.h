/* SPDX-License-Identifier: Apache-2.0 */
/* The folder a journal lives in: its lock, and the files that come and go there. All of it blocks
 * for as long as the disk does.
 *
 *   journal          the records
 *   journal.lock     empty; held while a server uses the folder
 *   journal.new      a compacted journal that has not taken its place yet
 *   journal.damaged  what stood behind a damaged record */
#ifndef DT_RENDEZVOUS_JOURNAL_FOLDER_H
#define DT_RENDEZVOUS_JOURNAL_FOLDER_H

#include "base/buf.h"
#include "base/err.h"

struct dt_journal_folder {
    char *name;
    int fd, lock;
};

/* Makes and locks it. F is to be closed also on failure. */
int dt_journal_folder_open(struct dt_journal_folder *f, const char *name, struct dt_err *err);
void dt_journal_folder_close(struct dt_journal_folder *f);

/* Opens the journal, or begins one, and reads it. What is behind the last whole record before any
 * damage is cut off, and BYTES as well. *CUT: how much. The descriptor, or -1. */
int dt_journal_folder_load(const struct dt_journal_folder *f, struct dt_buf *bytes, uint64_t *cut,
                           struct dt_err *err);

/* An empty journal.new with its header; -1 and *err. */
int dt_journal_folder_begin_new(const struct dt_journal_folder *f, struct dt_err *err);
void dt_journal_folder_drop_new(const struct dt_journal_folder *f);
/* It becomes the journal. 0, or an errno value. Any thread. */
int dt_journal_folder_adopt_new(const struct dt_journal_folder *f);

/* All LEN bytes at offset AT. 0, or an errno value. Any thread. */
int dt_journal_write_at(int fd, const void *bytes, size_t len, uint64_t at);

#endif
