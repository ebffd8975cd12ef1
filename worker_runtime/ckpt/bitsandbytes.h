/* SPDX-License-Identifier: Apache-2.0 */
/* A weight in NF4 as bitsandbytes saves it: bytes of codes under the weight's own name, and beside
 * them, under that name and a suffix, what they mean. Only doubly quantized weights are read. */
#ifndef DT_WORKER_RUNTIME_CKPT_BITSANDBYTES_H
#define DT_WORKER_RUNTIME_CKPT_BITSANDBYTES_H

#include "worker_runtime/ckpt/safetensors.h"
#include "worker_runtime/model/shape.h"

enum dt_bnb_part {
    DT_BNB_CODES,
    DT_BNB_ABSMAX,
    DT_BNB_QUANT_MAP,
    DT_BNB_NESTED_ABSMAX,
    DT_BNB_NESTED_QUANT_MAP,
    DT_BNB_STATE,
    DT_BNB_PARTS
};

struct dt_bnb_weight {
    struct dt_bnb_stored {
        const struct dt_st_file *file;
        const struct dt_st_tensor *tensor; /* NULL: not found */
    } part[DT_BNB_PARTS];
    enum dt_dtype type; /* which numbers are rounded to; of dt_bnb_check() */
    float offset;
};

/* Which part of a weight a tensor called NAME is, by its end; *LENGTH: that of the weight's name.
 * DT_BNB_CODES: by its name it is none of the others. */
enum dt_bnb_part dt_bnb_part_of(const char *name, size_t *length);

/* That all parts are there, of the types and sizes that go with OURS, a matrix which is stored as
 * [OUT, IN], and say what is read here. Sets W->type and W->offset. */
int dt_bnb_check(struct dt_bnb_weight *w, const struct dt_tensor *ours, size_t out, size_t in,
                 struct dt_err *err);
/* What TEXT, the state, says of it; the whole of its part, for the fuzzer too. */
int dt_bnb_take_state(struct dt_bnb_weight *w, struct dt_bytes text, size_t out, size_t in,
                      struct dt_err *err);
/* Its COUNT numbers as ops/nf4.h packs them. */
int dt_bnb_pack(const struct dt_bnb_weight *w, size_t count, void *packed, struct dt_err *err);

/* -- writing ----------------------------------------------------------------------------------- */

/* What the state of a weight takes: the same for all, so that files are laid out before a number is
 * known. Blanks fill it up. */
#define DT_BNB_STATE_SIZE 320
#define DT_BNB_NAME_SIZE 160

/* Type and shape of part PART of the weight named WEIGHT, of COUNT numbers, and its name, which
 * NAME has room for. */
void dt_bnb_describe(enum dt_bnb_part part, const char *weight, size_t count,
                     char name[DT_BNB_NAME_SIZE], struct dt_st_tensor *to);
/* Its bytes, of a weight [OUT, IN] that is in PACKED (ops/nf4.h); STATE and CODEBOOK are room for
 * what is not there. TYPE: what its numbers are to be rounded to. */
struct dt_bnb_room {
    char state[DT_BNB_STATE_SIZE];
    float codebook[16];
};
struct dt_bytes dt_bnb_bytes(enum dt_bnb_part part, const void *packed, size_t out, size_t in,
                             enum dt_dtype type, struct dt_bnb_room *room);

#endif
