/* SPDX-License-Identifier: Apache-2.0 */
/* The hosts that a run is suggested a mesh for: how many there are, what each rank computes with,
 * and the links between ranks. Numbers of GPUs and links are those that their makers and the users
 * of other programs tell; none of them was measured here. Pure. */
#ifndef DT_WORKER_RUNTIME_TRAIN_MACHINE_H
#define DT_WORKER_RUNTIME_TRAIN_MACHINE_H

#include "base/err.h"
#include "worker_runtime/device/device.h"

struct dt_machine {
    int hosts, local;    /* ranks on each */
    bool gpus;           /* each rank has one; else all compute on processors */
    char name[96];       /* of the GPU */
    size_t memory;       /* that a GPU has, or a host where its ranks have none */
    size_t host_memory;  /* of this machine as a host, also where its ranks have GPUs */
    size_t scratch;      /* of a GPU's, what ops work in */
    bool seen;           /* it is this machine, and MEMORY is what is free or allowed here */
    int threads;         /* of a rank on processors */
    double tera;         /* 1e12 FLOPs a second of a rank, as its maker has it; 0: not known */
    double inside;       /* bytes a second that a rank sends to another one of its host */
    double network;      /* that a host sends, all of its ports together */
    double memory_speed; /* bytes a second of a rank's memory */
};

/* Processors alone. */
void dt_machine_init(struct dt_machine *m, int ranks, int threads, size_t memory);
/* GPUS of one host, as a driver describes them. What they can do may be unknown: words may still
 * say of another machine, so dt_machine_check() is asked last. */
void dt_machine_see(struct dt_machine *m, int gpus, const struct dt_gpu_memory *gpu);
/* What TEXT says of it, as "hosts=8,gpus=8,gpu=H100,memory=80G,network=3200". M stays what it was
 * where this fails. */
int dt_machine_read(struct dt_machine *m, const char *text, struct dt_err *err);
/* -1 and *err: what its GPUs can do is not known. */
int dt_machine_check(const struct dt_machine *m, struct dt_err *err);

/* Of MEMORY, what a rank may fill. */
size_t dt_machine_room(const struct dt_machine *m);

#endif
