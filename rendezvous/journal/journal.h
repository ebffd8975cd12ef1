/* SPDX-License-Identifier: Apache-2.0 */
/* What must survive kill -9, on disk: a map from key to bytes, kept as a file that is only appended
 * to. The last record of a key counts.
 *
 * A record is length, CRC32C, key and value; the file opens with a magic and a version. A torn or
 * damaged tail is cut when it is opened, with a line about how much. Writes are given to the kernel
 * at once and made durable together: one fdatasync(), on libuv's threads, for all that came while
 * the last one ran. When most of the file is overwritten records it is written anew beside itself
 * and renamed, on such a thread as well. A lock keeps a second server away. All calls belong to the
 * loop's thread. */
#ifndef DT_RENDEZVOUS_JOURNAL_JOURNAL_H
#define DT_RENDEZVOUS_JOURNAL_JOURNAL_H

#include "base/buf.h"
#include "base/err.h"

#include <uv.h>

#define DT_JOURNAL_KEY_MAX 1024
#define DT_JOURNAL_VALUE_MAX (64u << 20)

struct dt_journal;

/* Called for each key that is there when it is opened, in the order they were put. KEY and VALUE
 * are good until it returns. */
typedef void dt_journal_replay_fn(void *arg, struct dt_bytes key, struct dt_bytes value);

/* DIR is made where it is missing. *err: what is wrong and what to do; a newer version is refused
 * and left alone. */
struct dt_journal *dt_journal_open(uv_loop_t *loop, const char *dir, dt_journal_replay_fn *replay,
                                   void *arg, struct dt_err *err);

/* -1 and *err: the disk does not take it; the file is as before. It is kept in memory then, and
 * tried again every second, at the next put and at the end. VALUE of no bytes removes the key.
 * After a failed sync nothing is taken any more. */
int dt_journal_put(struct dt_journal *j, struct dt_bytes key, struct dt_bytes value,
                   struct dt_err *err);

/* DONE is called, from the loop, when all that was put before is on disk, or (ERR) cannot be. In
 * order. -1 and *err: it is not going to be called; no memory, or a sync failed before. What the
 * kernel could not write once is lost to it, so a failure stays: only opening the journal again
 * tells what is there. */
int dt_journal_sync(struct dt_journal *j, void (*done)(void *arg, const struct dt_err *err),
                    void *arg, struct dt_err *err);

struct dt_journal_counters { /* since it was opened */
    uint64_t records, bytes; /* written by puts */
    uint64_t syncs, compactions;
    uint64_t cut; /* bytes of a torn or damaged tail */
};
const struct dt_journal_counters *dt_journal_counters(const struct dt_journal *j);

/* Records that the disk has not taken yet, and that are tried again. */
size_t dt_journal_unwritten(const struct dt_journal *j);
/* After a failed sync. */
bool dt_journal_is_lost(const struct dt_journal *j);

/* What was put is made durable, and what is waited for told, first. NULL is fine; ON_CLOSED (may be
 * NULL) is then not called. */
void dt_journal_close(struct dt_journal *j, void (*on_closed)(void *arg), void *arg);

#endif
