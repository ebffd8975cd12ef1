/* SPDX-License-Identifier: Apache-2.0 */
/* What a person should know of a rendezvous before jobs meet there. Pure. */
#ifndef DT_CTL_DIAGNOSIS_H
#define DT_CTL_DIAGNOSIS_H

#include "preflight/sheet.h"
#include "rendezvous/protocol/status.h"

#include <stdint.h>

/* A rendezvous that was asked something. */
struct dt_ctl_visit {
    const char *place; /* as the person named it */
    const char *from;  /* the variable that named it; NULL: none did */
    const struct dt_status_server *server;
    int64_t trip_us;   /* there and back, the shortest of a few */
    int64_t offset_us; /* how far its clock is ahead of ours, give or take half a trip */
    bool token;        /* it asked for one, and took ours */
};

/* Adds a remark for each thing that was looked at. */
void dt_ctl_diagnose(const struct dt_ctl_visit *v, struct dt_sheet *out);

/* The remark where nobody could be asked. */
void dt_ctl_diagnose_absence(const char *why, struct dt_sheet *out);

#endif
