/* SPDX-License-Identifier: Apache-2.0 */
/* Objects of CPython that a stack leads to: text, and the bytes of a location table. Pure but for
 * the reads. */
#ifndef DT_AGENT_LOOK_PYTHON_TEXT_H
#define DT_AGENT_LOOK_PYTHON_TEXT_H

#include "agent/look/python_layout.h"
#include "base/buf.h"

#define DT_PYTHON_TEXT_MAX 8192     /* characters */
#define DT_PYTHON_BYTES_MAX 1048576 /* of a location table */

/* Appends the text object at ADDRESS to OUT as UTF-8. -1: it is unreadable, or none. */
int dt_python_text_read(struct dt_memory *m, const struct dt_python_layout *layout,
                        uint64_t address, struct dt_buf *out);

/* Appends the content of the bytes object at ADDRESS. */
int dt_python_bytes_read(struct dt_memory *m, const struct dt_python_layout *layout,
                         uint64_t address, struct dt_buf *out);

#endif
