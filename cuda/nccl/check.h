/* SPDX-License-Identifier: Apache-2.0 */
/* What `dtrun-train --check-nccl` looks at. Libraries answer by a table of calls, files are read
 * below a root, variables come from a list: tests bring all three. */
#ifndef DT_CUDA_NCCL_CHECK_H
#define DT_CUDA_NCCL_CHECK_H

#include "cuda/nccl/calls.h"
#include "worker_runtime/device/cuda_plugin.h"

struct dt_check {
    const struct dt_nccl_calls *calls;
    const char *root;       /* in front of "/sys/class/net"; "" in life */
    const char *const *env; /* "NAME=value", ended by NULL */
    dt_check_line_fn say;
    void *arg;
    int problems; /* said so far */
};

/* All of it: how many problems there are. */
int dt_check_all(struct dt_check *c);

void dt_check_say(struct dt_check *c, enum dt_check_level level, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* check_host.c: network cards, shared memory. */
void dt_check_host(struct dt_check *c);

/* Names in a folder below the root, sorted. */
struct dt_check_names {
    char **name;
    int count;
};
void dt_check_list(const struct dt_check *c, const char *path, struct dt_check_names *n);
void dt_check_free(struct dt_check_names *n);
/* The first line of a file below the root; "" when there is none. */
void dt_check_read(const struct dt_check *c, const char *path, char *out, size_t size);

/* check_env.c: variables that are set, and which do not go together. */
void dt_check_env(struct dt_check *c);

#endif
