/* SPDX-License-Identifier: Apache-2.0 */
/* dtrun-ctl top: runs, nodes and events on the whole terminal, again and again. */
#ifndef DT_CTL_TOP_TOP_H
#define DT_CTL_TOP_TOP_H

#include "ctl/options.h"
#include "rendezvous/protocol/proof.h"

/* Until the person quits. Where there is no terminal for it, or with --once, one picture is
 * appended to OUT instead, as text. TOKEN NULL: there is none. -1 and *err; the terminal is as it
 * was before. A signal that ends it ends the process. */
int dt_ctl_top(const struct dt_ctl_options *o, const struct dt_token *token, struct dt_buf *out,
               struct dt_err *err);

#endif
