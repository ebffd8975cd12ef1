/* SPDX-License-Identifier: Apache-2.0 */
/* How each of our programs speaks to the person who started it, outside of the log. */
#ifndef DT_BASE_SAY_H
#define DT_BASE_SAY_H

/* Writes "WHO: TEXT" and a newline to standard error, in one piece, so that lines of several
 * processes do not mix. WHO is the program's name, and its rank where that matters. TEXT may quote
 * a file or a peer: the terminal gets to see control characters as text, see dt_utf8_put_visible().
 */
void dt_say(const char *who, const char *text);

/* The same for each line of LINES that is not empty. */
void dt_say_lines(const char *who, const char *lines);

#endif
