/* SPDX-License-Identifier: Apache-2.0 */
/* A depot: where copies of checkpoints are kept away from the machine that made them. It is what a
 * URL names (a bucket of an object store, a folder of a network file system), or whatever a command
 * of the user's does with a file. Files have keys there, "step-00000100/state.json".
 *
 * Calls block, for seconds or hours: they are made by threads and processes of their own. */
#ifndef DT_BASE_UPLOAD_DEPOT_H
#define DT_BASE_UPLOAD_DEPOT_H

#include "base/err.h"
#include "base/transfer/transfer.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct dt_depot;

struct dt_depot_options {
    const char *url;         /* NULL: the command knows */
    const char *command;     /* runs for each file that is put; NULL: we transfer ourselves */
    uint64_t bandwidth;      /* bytes a second at most; 0: no limit. Not of a command */
    const atomic_bool *stop; /* once it is true, calls end soon with DT_E_CANCELED; NULL: never */
};

/* Copies the strings; STOP outlives it. Nothing is asked of the other side yet. */
struct dt_depot *dt_depot_open(const struct dt_depot_options *o, struct dt_err *err);
void dt_depot_close(struct dt_depot *d);

/* For sentences: its URL, or its command. */
const char *dt_depot_name(const struct dt_depot *d);
/* What reads, lists and removes there. NULL: the depot is a command, which takes files and that is
 * all. */
struct dt_transfer *dt_depot_transfer(struct dt_depot *d);

/* The file at PATH becomes KEY. */
int dt_depot_put(struct dt_depot *d, const char *path, const char *key, struct dt_err *err);

/* Files that are to be put. */
struct dt_depot_batch {
    struct dt_transfer_file *at;
    size_t count;
};

/* CRC: the CRC-32C that the file has to have, unless a command puts it; NULL: not known. */
int dt_depot_batch_add(struct dt_depot_batch *b, const char *path, const char *key,
                       const uint32_t *crc, struct dt_err *err);
/* Several at once where that is faster. Ends with the first that fails. */
int dt_depot_put_all(struct dt_depot *d, struct dt_depot_batch *b, struct dt_err *err);
void dt_depot_batch_finish(struct dt_depot_batch *b);

struct dt_depot_file {
    char *key;
    uint64_t bytes;
};

struct dt_depot_list {
    struct dt_depot_file *at; /* by key */
    size_t count;
};

#define DT_DEPOT_FILES_MAX ((size_t)1 << 20)

/* All files whose keys begin with PREFIX, of a depot that has a transfer. */
int dt_depot_list(struct dt_depot *d, const char *prefix, struct dt_depot_list *out,
                  struct dt_err *err);
/* KEY is copied. For who makes a list by hand, as tests do. */
int dt_depot_list_add(struct dt_depot_list *l, const char *key, uint64_t bytes, struct dt_err *err);
void dt_depot_list_finish(struct dt_depot_list *l);

#endif
