/* SPDX-License-Identifier: Apache-2.0 */
/* A backend that becomes another name for a second one, when it finds out that this is what is
 * wanted. What the second one leaves to the agent is then left to the agent. */
#ifndef DT_AGENT_BACKEND_TORCHRUN_DELEGATE_H
#define DT_AGENT_BACKEND_TORCHRUN_DELEGATE_H

#include "agent/backend/backend.h"

struct dt_delegate {
    struct dt_backend base;
    struct dt_backend_ops ops; /* of base, from then on */
    struct dt_backend *to;     /* NULL before */
};

/* From here on all goes to TO, but for close(), which stays whose it is. */
void dt_delegate_to(struct dt_delegate *d, struct dt_backend *to);

#endif
