/* SPDX-License-Identifier: Apache-2.0 */
/* What lies beside a model of Hugging Face's and is no part of training: its tokenizer, and how
 * text is generated from it. A model that is fine-tuned keeps them, so that its checkpoints speak
 * as it did. They are held in memory, as the folder they come from may be gone when they are
 * written. */
#ifndef DT_WORKER_RUNTIME_CKPT_COMPANIONS_H
#define DT_WORKER_RUNTIME_CKPT_COMPANIONS_H

#include "base/buf.h"
#include "base/err.h"

#define DT_COMPANIONS 9

struct dt_companions { /* zeroed: there are none */
    struct dt_buf file[DT_COMPANIONS];
};

/* Those that are in DIR, in place of what C holds; others stay away. */
int dt_companions_read(struct dt_companions *c, const char *dir, struct dt_err *err);
/* Those too, each in place of the one that C holds. */
int dt_companions_add(struct dt_companions *c, const char *dir, struct dt_err *err);
/* The files of DIR that C has none of go: they are of another model. SAID gets their names, with a
 * comma between each two. */
int dt_companions_remove_others(const struct dt_companions *c, const char *dir, struct dt_buf *said,
                                struct dt_err *err);
int dt_companions_write(const struct dt_companions *c, const char *dir, struct dt_err *err);
void dt_companions_finish(struct dt_companions *c);

#endif
