/* SPDX-License-Identifier: Apache-2.0 */
/* Takes the codes that colour and move on a terminal out of bytes, wherever they are cut into
 * slices: ESC [ ... letter, ESC ] ... BEL and its kin, and the short ones. Pure. */
#ifndef DT_AGENT_OUTPUT_STRIP_H
#define DT_AGENT_OUTPUT_STRIP_H

#include <stddef.h>
#include <stdint.h>

/* Zeroed memory has seen nothing yet. */
struct dt_strip {
    enum {
        DT_STRIP_TEXT,
        DT_STRIP_ESCAPE,    /* behind ESC */
        DT_STRIP_CONTROL,   /* behind ESC [ */
        DT_STRIP_STRING,    /* behind ESC ] and the like: up to BEL or ESC \ */
        DT_STRIP_STRING_END /* behind an ESC in there */
    } state;
};

/* In place; returns how many of LEN bytes are left. */
size_t dt_strip(struct dt_strip *s, uint8_t *bytes, size_t len);

#endif
