/* SPDX-License-Identifier: Apache-2.0 */
/* Who gets alerts: an address, a command or a mailbox; and one delivery to it. */
#ifndef DT_RENDEZVOUS_ALERTS_RECEIVER_H
#define DT_RENDEZVOUS_ALERTS_RECEIVER_H

#include "base/err.h"
#include "rendezvous/alerts/body.h"

#include <stdatomic.h>

enum dt_receiver_kind { DT_RECEIVER_URL, DT_RECEIVER_COMMAND, DT_RECEIVER_MAIL };

struct dt_receiver {
    enum dt_receiver_kind kind;
    const char *target; /* the caller's */
    enum dt_alert_format format;
    char name[128]; /* for the log: what may be a secret is not in it */
};

/* -1 and *err: TARGET is none. */
int dt_receiver_init(struct dt_receiver *r, enum dt_receiver_kind kind, const char *target,
                     struct dt_err *err);

enum dt_delivery {
    DT_DELIVERED,
    DT_DELIVERY_AGAIN,   /* it may go well later; *err */
    DT_DELIVERY_REFUSED, /* it can only fail again; *err */
};

/* Blocks, for up to a minute where nothing moves; STOP ends it. From any thread. */
enum dt_delivery dt_receiver_deliver(const struct dt_receiver *r, struct dt_bytes body,
                                     const atomic_bool *stop, struct dt_err *err);

#endif
