/* SPDX-License-Identifier: Apache-2.0 */
/* CRC32C (Castagnoli): finds damage in what was written to disk. It is no protection from people.
 */
#ifndef DT_BASE_CRC32C_H
#define DT_BASE_CRC32C_H

#include "base/buf.h"

#include <stdint.h>

/* CRC of all that came before (0 at first), then of BYTES behind it: whole or in pieces gives the
 * same. By the processor's own instruction where it has one. */
uint32_t dt_crc32c(uint32_t crc, struct dt_bytes bytes);

/* The same without that instruction. */
uint32_t dt_crc32c_portable(uint32_t crc, struct dt_bytes bytes);

/* The CRC of A and B one behind the other, from theirs; B is LEN_B bytes long. */
uint32_t dt_crc32c_combine(uint32_t crc_a, uint32_t crc_b, uint64_t len_b);

#endif
