/* SPDX-License-Identifier: Apache-2.0 */
/* Names of hosts, looked up on a thread, since the resolver may take as long as it likes. */
#ifndef DT_BASE_LOOP_LOOKUP_H
#define DT_BASE_LOOP_LOOKUP_H

#include "base/addr.h"
#include "base/err.h"

#include <uv.h>

#define DT_LOOKUP_ADDRESSES 16 /* of one name; more are not asked for */

struct dt_lookup;

/* ERR is NULL and there is at least one address, the preferred one first; or it says why not, as
 * dt_addr_resolve() does. May call anything. */
typedef void dt_lookup_fn(void *arg, const struct dt_addr *found, size_t count,
                          const struct dt_err *err);

/* NAME is as dt_addr_resolve() takes it. DONE is called once, from the loop, and the look-up is
 * then gone. NULL: no memory or
 * no thread. */
struct dt_lookup *dt_lookup_start(uv_loop_t *loop, const char *name, uint16_t default_port,
                                  dt_lookup_fn *done, void *arg);

/* DONE will not be called, and the loop and the process do not wait for what runs. NULL is fine. */
void dt_lookup_forget(struct dt_lookup *k);

#endif
