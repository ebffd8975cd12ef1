/* SPDX-License-Identifier: Apache-2.0 */
/* How each of our programs speaks to the person who started it, outside of the log. */
#ifndef DT_BASE_SAY_H
#define DT_BASE_SAY_H

/* Writes "PROGRAM: TEXT" and a newline to standard error, in one piece, so that lines of several
 * processes do not mix. TEXT may quote a file or a peer: the terminal gets to see control
 * characters as text, see dt_utf8_put_visible(). */
void dt_say(const char *program, const char *text);

#endif
