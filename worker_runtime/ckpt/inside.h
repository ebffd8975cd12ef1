/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of this folder share.
 *
 * A save in DIR/.tmp-step-00000100-RUN-EPOCH-COUNT, a name that no other world makes: every rank
 * makes the folder and the files if they are not there yet, and writes its own stretches; rank 0
 * also makes the files as large as they will be and writes what stands in front. Behind its fsync a
 * rank leaves .part-RANK.json, which lists what it wrote with a checksum of each piece; pieces end
 * where a block of the file does, so rank 0 joins them to checksums of blocks without reading. */
#ifndef DT_WORKER_RUNTIME_CKPT_INSIDE_H
#define DT_WORKER_RUNTIME_CKPT_INSIDE_H

#include "worker_runtime/ckpt/companions.h"
#include "worker_runtime/ckpt/manifest.h"
#include "worker_runtime/ckpt/safetensors.h"
#include "worker_runtime/ckpt_names.h"

#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>

#define DT_CKPT_GONE ".tmp-gone-" /* a name that is no checkpoint's any more begins so */

struct dt_ckpt_piece {
    enum dt_ckpt_file file;
    uint64_t at, len;
    uint32_t crc;
};

struct dt_ckpt_pieces {
    struct dt_ckpt_piece *v;
    size_t count, size;
};

/* The life of a save, as the thread sees it that calls the functions of checkpoint.h ("the owner").
 * No other thread reads it. */
enum dt_ckpt_phase {
    DT_CKPT_IDLE,       /* there is no save */
    DT_CKPT_WRITING,    /* THREAD writes this rank's part, or has ended and is to be joined */
    DT_CKPT_WRITTEN,    /* it has been joined: well or not, it is to be committed or given up */
    DT_CKPT_COMMITTING, /* rank 0: THREAD gives the folder its name, or has ended */
    DT_CKPT_NAMED,      /* it has been joined, and how it went is to be told */
    DT_CKPT_PHASES,
};

/* How far THREAD is, in `outcome`. The thread sets it last; until then the pieces and `failure` are
 * the thread's alone, from then on the owner's. */
enum { DT_CKPT_BUSY, DT_CKPT_WELL, DT_CKPT_FAILED };

struct dt_ckpt {
    struct dt_ckpt_options o;
    struct dt_layout layout;
    struct dt_zero_state shards; /* the snapshot; its memory is kept from save to save */
    struct dt_device *snapped;   /* it is whole when this one has waited for it; NULL: it is */
    int64_t steps;
    struct dt_buf head[DT_CKPT_FILES]; /* what stands in front of the data; all of config.json */
    uint64_t bytes[DT_CKPT_FILES];     /* of each file when it is whole; 0: there is no such */

    enum dt_ckpt_phase phase; /* dt_ckpt_enter() alone assigns it */
    pthread_t thread;
    atomic_int outcome;
    atomic_bool stop;      /* the owner's word to THREAD: it may give up */
    struct dt_err failure; /* of the thread, behind OUTCOME */
    struct dt_ckpt_state state;
    char temp[PATH_MAX];
    char world[48]; /* "-RUN-EPOCH-", as all temporary names of this world have it */
    unsigned saves;
    struct dt_ckpt_pieces pieces;

    /* Another thread removes what nobody needs. The writing thread joins it first, and RUNNING is
     * that thread's until then; else the owner's. */
    struct dt_ckpt_sweep {
        bool running;
        pthread_t thread;
        const char *dir;
        char world[48];
        unsigned before;
    } sweep;
    atomic_llong pinned;             /* the owner's word to THREAD: it is not to be removed; -1 */
    struct dt_companions companions; /* of rank 0 */
    int claim;                       /* on the folder, of rank 0; -1 */
    uint64_t mark;                   /* of this world, in .world ... */
    bool marked;                     /* ... where it stood once */
    atomic_bool hurry; /* the owner's word to THREAD: a commit is not to wait for leave ... */
    atomic_bool waits; /* ... and THREAD's to the owner: it does */
};

/* In the metadata of adapters that are trained beside a model in NF4: by the type that its numbers
 * are rounded to. checkpoint.c */
#define DT_CKPT_NF4_KEY "dtrun_base"
#define DT_CKPT_NF4_WORDS 3
extern const char *const dt_ckpt_nf4_words[DT_CKPT_NF4_WORDS];

/* checkpoint.c */
/* The owner's. A move that the table does not allow is a mistake of ours, and ends the program: a
 * library logs nothing. */
void dt_ckpt_enter(struct dt_ckpt *c, enum dt_ckpt_phase to);
void dt_ckpt_sweep_join(struct dt_ckpt_sweep *s);
struct dt_zero_state *dt_ckpt_shards(struct dt_ckpt *c); /* to fill, then dt_ckpt_start() */
int dt_ckpt_start(struct dt_ckpt *c, const struct dt_ckpt_state *s, struct dt_err *err);
/* The same for a save that has nothing to write: it is at its end, and failed where WHY has a code.
 */
int dt_ckpt_start_given_up(struct dt_ckpt *c, const struct dt_ckpt_state *s,
                           const struct dt_err *why, struct dt_err *err);
/* Starts a thread that no signal is handled on: the one that asks for an end often comes while a
 * save is under way, and would interrupt a system call that cannot be made again, as fallocate(2)
 * on some file systems. What pthread_create() gives. */
int dt_ckpt_thread(pthread_t *out, void *(*run)(void *), void *arg);
void dt_ckpt_settle(struct dt_ckpt *c); /* no save is under way, and none is wanted */
int dt_ckpt_cut(const struct dt_ckpt_model *m, size_t world, struct dt_layout *l,
                struct dt_err *err); /* the layout that follows from M's tensors */
/* OUT's arrays, for RANK in L, zeroed; in memory DEVICE copies to best, if it is not NULL. */
int dt_ckpt_shards_init(struct dt_zero_state *out, const struct dt_layout *l, size_t rank,
                        struct dt_device *device, struct dt_err *err);
void dt_ckpt_shards_finish(struct dt_zero_state *s, struct dt_device *device);

/* write.c: the thread of a save. */
void *dt_ckpt_write(void *ckpt);
/* Where RANK's part of the save under way is listed, when it is whole. */
int dt_ckpt_part_path(const struct dt_ckpt *c, int rank, char out[PATH_MAX], struct dt_err *err);

/* pieces.c */
int dt_ckpt_pieces_add(struct dt_ckpt_pieces *p, uint64_t block_bytes, enum dt_ckpt_file file,
                       uint64_t at, struct dt_bytes bytes,
                       struct dt_err *err); /* BYTES stand in one block */
int dt_ckpt_pieces_write(const struct dt_ckpt_pieces *p, const char *path, struct dt_err *err);
int dt_ckpt_pieces_read(struct dt_ckpt_pieces *p, const char *path, struct dt_err *err); /* adds */
/* Sums of blocks in M, whose files have their sizes: every byte must be in one piece. */
int dt_ckpt_pieces_join(struct dt_ckpt_pieces *p, struct dt_manifest *m, struct dt_err *err);

/* claim.c: no other run saves in DIR until *OUT is closed (-1: where that cannot be known, or an
 * older world of this run still lives); -1 and *err when one does. */
int dt_ckpt_claim(const char *dir, const char *run_id, int *out, struct dt_err *err);
/* The same where CLAIM does not hold DIR any more because somebody removed the folder, or the file
 * in it, while the run went on. -1: another run has it now; CLAIM stays, and may be tried again. */
int dt_ckpt_claim_again(const char *dir, const char *run_id, int *claim, struct dt_err *err);

/* fence.c, of rank 0. Behind the claim: takes the folder over from earlier worlds, unless this may
 * be one. Again: the folder is a new one. */
void dt_ckpt_fence_begin(struct dt_ckpt *c);
int dt_ckpt_fence_begin_again(struct dt_ckpt *c, struct dt_err *err);
/* Right before a temporary name that is there already gets its final one. Waits for leave; -1:
 * there will be none, and ERR says why. */
int dt_ckpt_fence_pass(struct dt_ckpt *c, struct dt_err *err);
/* The same without leave: only whether a later world has taken the folder over. */
int dt_ckpt_fence_check(struct dt_ckpt *c, struct dt_err *err);
bool dt_ckpt_fence_is_lost(const struct dt_ckpt *c);
/* For a rescue: whether a world behind that of O, another job or another run has begun to save, or
 * nobody can know. */
bool dt_ckpt_is_followed(const struct dt_ckpt_options *o);
/* Once all of it is written: nothing else of a rescue changes whose the folder is. */
int dt_ckpt_fence_begin_rescue(struct dt_ckpt *c, struct dt_err *err);

/* folders.c */
/* Steps that have a folder in DIR, the highest first; free *OUT. */
int dt_ckpt_steps(const char *dir, int64_t **out, size_t *count, struct dt_err *err);
int dt_ckpt_sync_folder(const char *path, struct dt_err *err);
void dt_ckpt_remove(const char *path);
/* Removes all in DIR whose name GOES says so of. Each name is gone before what stands behind it:
 * whoever made it may be alive, and about to give it another. */
typedef bool (*dt_ckpt_goes_fn)(const char *name, const void *arg);
void dt_ckpt_sweep(const char *dir, dt_ckpt_goes_fn goes, const void *arg);
int dt_ckpt_join_path(char out[PATH_MAX], const char *dir, const char *name, struct dt_err *err);

/* find.c: M of the folder PATH, whose files are there in full length and whose config.json, put
 * into CONFIG (which may be NULL), is as written. */
int dt_ckpt_look(const char *path, struct dt_manifest *m, struct dt_buf *config,
                 struct dt_err *err);

/* What W was opened for, and its elements without the adapters that are in them: weights.c. */
const struct dt_ckpt_model *dt_ckpt_weights_model(const struct dt_ckpt_weights *w);
int dt_ckpt_weights_read_bare(const struct dt_ckpt_weights *w, size_t tensor, uint64_t first,
                              size_t count, float *out, struct dt_err *err);

#endif
