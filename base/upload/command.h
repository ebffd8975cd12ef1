/* SPDX-License-Identifier: Apache-2.0 */
/* A command of the user's that uploads a file. sh runs the text as it was given; what is to be
 * uploaded stands in the environment, so that no file name becomes a part of a command:
 *
 *     DTRUN_UPLOAD_FILE  the file, by an absolute path
 *     DTRUN_UPLOAD_KEY   the name that the copy is to have, "step-00000100/state.json"
 *     DTRUN_UPLOAD_URL   the URL of the copy, where a place was given; else ""
 *
 * Status 0 means that the copy is there, whole. */
#ifndef DT_BASE_UPLOAD_COMMAND_H
#define DT_BASE_UPLOAD_COMMAND_H

#include "base/err.h"

#include <stdatomic.h>

struct dt_upload_command {
    const char *text;
    const char *file; /* any path */
    const char *key;
    const char *url;         /* NULL: "" */
    const atomic_bool *stop; /* true: it is ended, as a process group; NULL: never */
};

/* Waits for its end; the last line that it printed is in *err when it fails, and DT_E_CANCELED is
 * the code when it was stopped. */
int dt_upload_command_run(const struct dt_upload_command *c, struct dt_err *err);

#endif
