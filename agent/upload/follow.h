/* SPDX-License-Identifier: Apache-2.0 */
/* Which entries of a folder that workers write to are complete, and to be uploaded next. An entry
 * is a file or a folder in it; a folder is uploaded as one. An entry is complete when nothing in it
 * has changed for a while. Pure: what is there, who writes and the time are arguments. */
#ifndef DT_AGENT_UPLOAD_FOLLOW_H
#define DT_AGENT_UPLOAD_FOLLOW_H

#include "base/clock.h"
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A file below the followed folder. */
struct dt_follow_file {
    char *path; /* from the folder on: "step-5/model.pt" */
    uint64_t bytes, inode;
    int64_t written_ns; /* by the clock of its file system */
};

/* All of them as they are now; those of an entry stand together. */
struct dt_follow_scan {
    struct dt_follow_file *at;
    size_t count;
};

/* PATH is copied. */
int dt_follow_scan_add(struct dt_follow_scan *s, const struct dt_follow_file *file,
                       struct dt_err *err);
void dt_follow_scan_finish(struct dt_follow_scan *s);
/* By entry; in an entry the file that was written last comes last. Whatever a program writes to say
 * that a checkpoint is whole is uploaded last, too. */
void dt_follow_scan_sort(struct dt_follow_scan *s);

/* Whether NAME in the folder is one that something else will get, or that was left unfinished: a
 * hidden one, and "x.tmp", "x.part", "x~", "tmp-x". */
bool dt_follow_is_temporary(const char *name);
/* The length of the entry's name that PATH begins with. */
size_t dt_follow_entry_length(const char *path);

struct dt_follow_entry {
    char *name;
    uint64_t mark;      /* tells one state of it from another */
    uint64_t sent;      /* the mark that was uploaded; 0: none */
    int64_t written_ns; /* the last file of it */
    dt_ms since;        /* it has been so */
    dt_ms not_before;   /* after a failure */
    int failures;       /* in a row */
    bool there;
    bool held; /* what it is now may be half written, and does not replace what was sent */
};

/* Zeroed memory is one that has seen nothing. */
struct dt_follow {
    struct dt_follow_entry *at;
    size_t count;
};

void dt_follow_finish(struct dt_follow *f);

/* Takes note of what is there NOW. S is sorted. */
int dt_follow_see(struct dt_follow *f, const struct dt_follow_scan *s, dt_ms now,
                  struct dt_err *err);
/* An entry that has not changed for SETTLE and is to be uploaded; of several the newest, which is
 * what a job would go on from. NULL: none. SETTLE is 0 when those who write are gone. */
struct dt_follow_entry *dt_follow_next(const struct dt_follow *f, dt_ms now, dt_ms settle);
/* Since when an entry that has not changed for SETTLE has been complete and is not uploaded, of the
 * one that has waited longest; 0: none waits. */
dt_ms dt_follow_waits_since(const struct dt_follow *f, dt_ms now, dt_ms settle);
/* Somebody writes it NOW: it is not complete, however long ago its files have changed. */
void dt_follow_busy(struct dt_follow_entry *e, dt_ms now);
/* Those who write were cut off NOW: an entry that was uploaded, and has changed within SETTLE, may
 * be half written, and is not uploaded any more. */
void dt_follow_hold(struct dt_follow *f, dt_ms now, dt_ms settle);
/* What failed before is tried again at once. */
void dt_follow_hurry(struct dt_follow *f);
/* It was uploaded as it was at MARK. */
void dt_follow_sent(struct dt_follow_entry *e, uint64_t mark);
/* It was not; it is tried again later, and later each time. */
void dt_follow_failed(struct dt_follow_entry *e, dt_ms now);

#endif
