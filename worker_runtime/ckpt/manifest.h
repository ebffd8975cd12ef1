/* SPDX-License-Identifier: Apache-2.0 */
/* state.json: the state of the run, and of every other file of the checkpoint its size and the
 * checksum of each of its blocks. Its own checksum is its last line. Pure. */
#ifndef DT_WORKER_RUNTIME_CKPT_MANIFEST_H
#define DT_WORKER_RUNTIME_CKPT_MANIFEST_H

#include "worker_runtime/ckpt/checkpoint.h"

#define DT_CKPT_STATE "state.json"
#define DT_CKPT_ADAPTER "adapter_model.safetensors"
#define DT_CKPT_BLOCK ((uint64_t)64 << 20)
#define DT_CKPT_BLOCK_MAX ((uint64_t)1 << 30)
#define DT_MANIFEST_MAX ((size_t)64 << 20)

enum dt_ckpt_file {
    DT_FILE_MODEL,
    DT_FILE_MASTER, /* not there when the model's type is float32: the model is the master */
    DT_FILE_EXP_AVG,
    DT_FILE_EXP_AVG_SQ,
    DT_FILE_CONFIG,
    DT_CKPT_FILES
};

/* Where it is in the folder of a checkpoint; of ADAPTERS, model and configuration have peft's
 * names. Those of the optimizer have a folder of their own, for their tensors have the names of the
 * model's, and other programs take every *.safetensors beside config.json for weights. */
#define DT_CKPT_OPTIMIZER "optimizer"
const char *dt_ckpt_file_name(bool adapters, enum dt_ckpt_file f);

struct dt_ckpt_sums {
    uint64_t bytes; /* 0: there is no such file */
    uint32_t *crc;  /* of each block, the last one may be short */
    size_t blocks;
};

struct dt_manifest {
    struct dt_ckpt_state state;
    enum dt_dtype model_type;
    uint64_t block_bytes;
    bool adapters; /* and not a model */
    bool flat;     /* of version 1, which had no folder for the optimizer's files */
    struct dt_ckpt_sums files[DT_CKPT_FILES];
};

void dt_manifest_finish(struct dt_manifest *m);
/* Room for a file's sums. */
int dt_manifest_size(struct dt_manifest *m, enum dt_ckpt_file f, uint64_t bytes,
                     struct dt_err *err);
/* Where F is in the checkpoint that M is of. */
const char *dt_manifest_file_name(const struct dt_manifest *m, enum dt_ckpt_file f);
/* Which file holds float32 parameters. */
enum dt_ckpt_file dt_manifest_master(enum dt_dtype model_type);

void dt_manifest_write(const struct dt_manifest *m, struct dt_buf *out);
/* Any byte that is not as it was written is an error. M needs no finish when it fails. */
int dt_manifest_read(struct dt_manifest *m, struct dt_bytes text, struct dt_err *err);

#endif
