/* SPDX-License-Identifier: Apache-2.0 */
/* dtrun-train probe: the devices of this host on trial, side by side, each in a thread of its own.
 * What comes of it is a line of JSON for each device, for a person and for `dtrun doctor`
 * (preflight/probes/compute.h). */
#ifndef DT_WORKER_RUNTIME_TRAIN_TRIALS_H
#define DT_WORKER_RUNTIME_TRAIN_TRIALS_H

#include "base/err.h"

#include <stdio.h>

/* KIND: "cpu"; "cuda": all GPUs that this process may use; "auto": the same, and without one there
 * is nothing to try. Prints a line when it begins with a device, and another one when that is over:
 *
 *   {"device":"cuda","index":0,"name":"NVIDIA H100","uuid":"GPU-...","pci":"0000:17:00.0",
 *    "state":"trying"}
 *   ... "state":"well","side":4096,"flops":612...,"memory":1073741824,"written":...,"got":...}
 *   ... "state":"wrong","why":"..."}     what it computes or keeps is not as it should be
 *   ... "state":"failed","why":"..."}    it failed at work, or cannot even say what it is: then
 *                                        "name" is "unknown GPU", and this is its only line
 *   ... "state":"refused","why":"..."}   it could not be opened, or has not enough memory left
 *   ... "state":"silent"}                it is not over after SECONDS, or where these are 0, after
 *                                        dt_trials_patience(); the process ends here, with 1
 *
 * Without a GPU: {"device":"cuda","state":"absent","installed":false,"why":"..."}, where INSTALLED
 * says whether there is a plugin for GPUs at all. -1 and *err: not all of them are well. */
int dt_trials_run(const char *kind, int seconds, FILE *out, struct dt_err *err);

/* Seconds that COUNT devices may take, side by side. A driver that does not stay loaded takes two
 * or three to wake a GPU, and wakes one after the other. Pure. */
#define DT_TRIALS_PATIENCE_MOST 40
int dt_trials_patience(int count);

#endif
