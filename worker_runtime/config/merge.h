/* SPDX-License-Identifier: Apache-2.0 */
/* Several sources to one document: a file, a file of DeepSpeed's, and overrides. */
#ifndef DT_WORKER_RUNTIME_CONFIG_MERGE_H
#define DT_WORKER_RUNTIME_CONFIG_MERGE_H

#include "base/json.h"

struct dt_merge {
    struct dt_json doc; /* all of them */
    const char *name;   /* of the first source */
    struct dt_json second;
    const char *second_name;      /* NULL: there is none */
    const char *const *overrides; /* NULL-ended; may be NULL */
};

/* Comments and trailing commas are fine, duplicate keys are not. Paths to be read become good from
 * where the process stands, as they are relative to FOLDER. */
int dt_merge_parse(struct dt_json *doc, const char *text, size_t len, const char *name,
                   const char *folder, struct dt_err *err);
int dt_merge_file(struct dt_json *doc, const char *path, struct dt_err *err);

/* Takes the keys of M->second in. A key that both have, with another value, is refused. */
int dt_merge_second(struct dt_merge *m, struct dt_err *err);
/* Sets each override. */
int dt_merge_overrides(struct dt_merge *m, struct dt_err *err);
/* The last override that sets PATH, what it is in, or a part of it; NULL: none does. */
const char *dt_merge_overriding(const struct dt_merge *m, const char *path);
/* Puts in front of ERR, which begins with a key's path, the source that has the key. Gives -1. */
int dt_merge_blame(const struct dt_merge *m, struct dt_err *err);
/* Puts NAME, an option that OVERRIDE was made of, in place of it and of its key where ERR begins
 * with that override: nobody typed it. */
void dt_merge_rename(struct dt_err *err, const char *override, const char *name);

void dt_merge_finish(struct dt_merge *m);

#endif
