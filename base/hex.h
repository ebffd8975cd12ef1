/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes as hexadecimal digits, small letters. Pure. */
#ifndef DT_BASE_HEX_H
#define DT_BASE_HEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* OUT has room for two digits a byte, and a NUL. */
void dt_hex(const uint8_t *bytes, size_t len, char *out);

/* TEXT into LEN bytes. False: it does not stand for so many. */
bool dt_hex_read(const char *text, uint8_t *bytes, size_t len);

/* -1: C is none of the digits that are written here. */
int dt_hex_value(char c);

#endif
