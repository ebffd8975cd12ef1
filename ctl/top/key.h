/* SPDX-License-Identifier: Apache-2.0 */
/* The keys that a person presses, out of the bytes that a terminal sends. Pure. */
#ifndef DT_CTL_TOP_KEY_H
#define DT_CTL_TOP_KEY_H

#include "base/buf.h"

#include <stdbool.h>
#include <stddef.h>

enum dt_key_kind {
    DT_KEY_OTHER, /* a key without a meaning here */
    DT_KEY_CHARACTER,
    DT_KEY_UP,
    DT_KEY_DOWN,
    DT_KEY_PAGE_UP,
    DT_KEY_PAGE_DOWN,
    DT_KEY_HOME,
    DT_KEY_END,
    DT_KEY_ENTER,
    DT_KEY_ESCAPE,
    DT_KEY_BACKSPACE,
    DT_KEY_REDRAW, /* Ctrl-L */
};

struct dt_key {
    enum dt_key_kind kind;
    char character; /* DT_KEY_CHARACTER: of ASCII, and printable */
};

/* Takes the first key off IN. A sequence begins with the byte that the Escape key sends, too: where
 * nothing follows it, the answer is DT_MORE until the terminal has been QUIET for a moment. Never
 * DT_BAD: what makes no sense is DT_KEY_OTHER. */
enum dt_decoded dt_key_read(struct dt_bytes in, bool quiet, struct dt_key *key, size_t *used);

#endif
