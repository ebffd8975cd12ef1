/* SPDX-License-Identifier: Apache-2.0 */
/* The optimizer of a rank that computes on a GPU, in the host's memory: master copy, moments and
 * the sums of this rank's gradients are kept there, and AdamW runs on the CPU. A shard's sum goes
 * down through a pinned bucket while backward goes on; updated parameters go up in pieces while the
 * pieces behind them are computed. Parameters may lie there too, but for units that are whole right
 * now (slots.h). One thread. */
#ifndef DT_WORKER_RUNTIME_ZERO_OFFLOAD_H
#define DT_WORKER_RUNTIME_ZERO_OFFLOAD_H

#include "worker_runtime/zero/stage.h"

struct dt_offload;

/* Opens the CPU with THREADS (device.h). PIECE: elements that go between the two at a time, for
 * tests; 0: as many as suit. Z has its layout, and outlives it. */
struct dt_offload *dt_offload_create(struct dt_zero *z, int threads, size_t piece,
                                     struct dt_err *err);
void dt_offload_destroy(struct dt_offload *o);
struct dt_device *dt_offload_home(const struct dt_offload *o);

/* Begins to fetch this rank's part of UNIT's sum from SUM, in the GPU's memory, and adds it to what
 * the host has of earlier micro-steps. SUM is not to be written before it has come, and then the
 * loan of LENT ends (loans.h; NULL: none). Waits for what was fetched before. */
int dt_offload_fetch(struct dt_offload *o, size_t unit, const void *sum, void *lent,
                     struct dt_err *err);
/* What is being fetched has come, if anything is. */
int dt_offload_settle(struct dt_offload *o, struct dt_err *err);
/* All of a step has come: units that nobody computed gradients for have zeros. */
int dt_offload_finish(struct dt_offload *o, struct dt_err *err);

/* This rank's shard of UNIT's sum, of the host's memory, which the caller may change. */
void *dt_offload_sum(const struct dt_offload *o, size_t unit);
/* Of COUNT gradients from element AT of this rank's shard of UNIT. */
double dt_offload_squares(struct dt_offload *o, size_t unit, size_t at, size_t count);
/* AdamW over piece P of UNIT on the CPU, by the rates and chances of HOW; begins to send the new
 * parameters up. */
void dt_offload_adamw(struct dt_offload *o, const struct dt_adamw *a,
                      const struct dt_adamw_part *how, size_t unit, const struct dt_piece *p);
/* The parameters of this rank's shard of UNIT become what the master copy says. */
void dt_offload_derive(struct dt_offload *o, size_t unit);
/* This rank's shard of UNIT, of parameters that are at home, begins to go up to TO. */
void dt_offload_lift(struct dt_offload *o, size_t unit, void *to);

/* Of the host, beside master, moments and parameters. */
size_t dt_offload_bytes(const struct dt_offload *o);
/* The same of a rank with such a layout, which computes with ELEM, and whose gradients come down as
 * FROM and are kept as SUM; and of one whose parameters are frozen. Pure. */
size_t dt_offload_bytes_of(const struct dt_layout *l, enum dt_dtype elem, enum dt_dtype from,
                           enum dt_dtype sum);
size_t dt_offload_bytes_of_frozen(enum dt_dtype elem);

#endif
