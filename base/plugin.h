/* SPDX-License-Identifier: Apache-2.0 */
/* Helper libraries: what few runs need and many libraries stand behind is a module of its own,
 * dt_NAME.so, opened when an option asks for it. A module exports one symbol, dt_plugin: a constant
 * table that begins with struct dt_plugin_head. */
#ifndef DT_BASE_PLUGIN_H
#define DT_BASE_PLUGIN_H

#include "base/err.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct dt_plugin_head {
    uint32_t abi;  /* which interface; another number is another, not a newer one */
    uint32_t size; /* of the whole table; later rows are added behind */
};

/* What a module has to be to be taken. */
struct dt_plugin_kind {
    const char *what; /* in sentences: "helper library" */
    uint32_t abi;
    size_t size; /* the fewest bytes that its table has */
    /* Fills *err with what a person can do about WHY, the loader's words. */
    void (*not_loaded)(const char *path, const char *why, struct dt_err *err);
};

#define DT_PLUGIN_EXPORT __attribute__((visibility("default")))

/* The table of the helper library NAME, "base/httpd": dt_httpd.so, which base/meson.build builds.
 * It speaks interface ABI, has at least SIZE bytes, and stays loaded until the process ends. Looked
 * for in $DTRUN_PLUGIN_DIR alone if that is set, else beside the executable, in the library folder
 * that belongs to the executable, and in the configured one. In a build tree, whose top folder may
 * be $DTRUN_PLUGIN_DIR too, it is found where it was built. NULL and one sentence in *err. */
const void *dt_plugin_open(const char *name, uint32_t abi, size_t size, struct dt_err *err);

/* Where "FOLDER/FILE" is, looked for in the same places: a library that another program is to load,
 * or a program. False: it is not installed. */
bool dt_plugin_find(const char *name, char path[PATH_MAX]);

/* dt_plugin_open() of the module at PATH, or of that name where the loader itself looks. */
const void *dt_plugin_load(const char *path, const struct dt_plugin_kind *kind, struct dt_err *err);

#endif
