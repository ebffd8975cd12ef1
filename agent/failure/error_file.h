/* SPDX-License-Identifier: Apache-2.0 */
/* error.json: what a worker leaves when an exception escapes a function that PyTorch's `record`
 * decorates, or what its own handler wrote. Two forms are taken:
 *
 *   {"message": {"message": TEXT, "extraInfo": {"py_callstack": TEXT, "timestamp": SECONDS}}}
 *   {"message": TEXT, "timestamp": SECONDS}
 *
 * A worker writes it while it is failing, so the reader is lenient: all but the outer "message" may
 * be absent or of a wrong type, seconds may be a number or a string, and of text that Python writes
 * but JSON readers refuse (half a surrogate pair, U+0000) the escape is shown. */
#ifndef DT_AGENT_FAILURE_ERROR_FILE_H
#define DT_AGENT_FAILURE_ERROR_FILE_H

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"

#include <stdint.h>

#define DT_ERROR_FILE_MAX ((size_t)1 << 20)

struct dt_error_file {
    char *message; /* as the report shows it, indented where torchrun does; NULL: it says nothing */
    int64_t time;  /* seconds since 1970; -1: not told, or no time of this world */
    struct dt_json doc;
};

/* Both fill *OUT, to be ended with dt_error_file_finish(), also after a failure. -1: it is no error
 * file, or (DT_E_MEMORY) no memory. What is no regular file is not opened: a pipe would hold us. */
int dt_error_file_read(const char *path, struct dt_error_file *out, struct dt_err *err);
int dt_error_file_parse(const char *text, size_t len, struct dt_error_file *out,
                        struct dt_err *err);
void dt_error_file_finish(struct dt_error_file *f);

/* Appends the file as JSON. EXIT_CODE becomes "errorCode" of the first form unless it is 0. */
int dt_error_file_print(struct dt_error_file *f, int exit_code, struct dt_buf *out,
                        struct dt_err *err);

#endif
