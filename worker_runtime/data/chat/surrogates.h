/* SPDX-License-Identifier: Apache-2.0 */
/* Halves of characters in JSON: programs that count in UTF-16 and cut a text within an emoji write
 * "\ud83d" without the half that belongs behind it. It stands for no character, so a parser ends
 * there; whoever would rather read the rest puts U+FFFD in its place, as web browsers do. Pure. */
#ifndef DT_DATA_CHAT_SURROGATES_H
#define DT_DATA_CHAT_SURROGATES_H

#include "base/buf.h"

/* Whether such a half is in JSON. */
bool dt_surrogates_are_in(struct dt_bytes json);
/* Each of them becomes "\ufffd", which is as long. */
void dt_surrogates_replace(uint8_t *json, size_t len);

#endif
