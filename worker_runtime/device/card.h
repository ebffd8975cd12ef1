/* SPDX-License-Identifier: Apache-2.0 */
/* What a rank tells the others of its device. A world computes on devices of one kind and with
 * elements of one type: collectives of a GPU's memory have nobody to meet on a host without one. */
#ifndef DT_WORKER_RUNTIME_DEVICE_CARD_H
#define DT_WORKER_RUNTIME_DEVICE_CARD_H

#include "worker_runtime/device/device.h"

/* Bytes alone, so that it travels as they are; texts end with 0, cut short where they are long. */
struct dt_device_card {
    char device[16]; /* "cpu", "cuda" */
    uint8_t elem;    /* an enum dt_dtype: what its ops compute with */
    char host[40];   /* the name of this machine */
    char why[230];   /* it is no GPU; "": nobody asked for one */
};

void dt_device_card_write(const struct dt_device *d, struct dt_device_card *card);

/* Of RANKS cards, by rank. Where they differ, *err is a sentence with a rank of each kind; it is
 * the same on all ranks. Pure. */
int dt_device_cards_check(const struct dt_device_card *cards, int ranks, struct dt_err *err);

#endif
