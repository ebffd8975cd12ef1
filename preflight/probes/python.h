/* SPDX-License-Identifier: Apache-2.0 */
/* Which Python and PyTorch workers will run, without importing it: that takes seconds. */
#ifndef DT_PREFLIGHT_PROBES_PYTHON_H
#define DT_PREFLIGHT_PROBES_PYTHON_H

#include "preflight/probes/inside.h"

struct dt_python {
    const char *path;            /* of the interpreter */
    char why[96];                /* it says nothing; "": it does */
    char version[32], torch[32]; /* "": it has none */
    char cuda[16], nccl[32];     /* that this PyTorch was built with; "": none */
    char driver[32];             /* NVIDIA's, of this host; "": none */
};

/* Finds NAME = 'value' in the lines of torch/version.py; "": None, or it is not there. Pure. */
void dt_python_find(const char *text, const char *name, char *out, size_t size);

/* The least driver of NVIDIA's that runs programs of CUDA, "12.4"; 0: not known. Pure. */
int dt_python_driver_for(const char *cuda);

void dt_python_judge(const struct dt_python *p, struct dt_sheet *sheet);
void dt_python_probe(const struct dt_checkup *c, struct dt_sheet *sheet);

#endif
