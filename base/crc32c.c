/* SPDX-License-Identifier: Apache-2.0 */
#include "base/crc32c.h"

#include <stdbool.h>

#if defined(__x86_64__)
#include <nmmintrin.h>
#elif defined(__AARCH64EL__)
#include <sys/auxv.h>
#ifndef HWCAP_CRC32
#define HWCAP_CRC32 (1 << 7)
#endif
#endif

/* The CRC of a byte is the sum, without carry, of those of its bits: eight numbers make the table.
 */
#define BIT(n, bit, crc) ((n) >> (bit)&1 ? (crc) : 0u)
#define BYTE(n)                                                                                    \
    (BIT(n, 0, 0xf26b8303u) ^ BIT(n, 1, 0xe13b70f7u) ^ BIT(n, 2, 0xc79a971fu) ^                    \
     BIT(n, 3, 0x8ad958cfu) ^ BIT(n, 4, 0x105ec76fu) ^ BIT(n, 5, 0x20bd8edeu) ^                    \
     BIT(n, 6, 0x417b1dbcu) ^ BIT(n, 7, 0x82f63b78u))
#define BYTES_4(n) BYTE(n), BYTE((n) + 1), BYTE((n) + 2), BYTE((n) + 3)
#define BYTES_16(n) BYTES_4(n), BYTES_4((n) + 4), BYTES_4((n) + 8), BYTES_4((n) + 12)
#define BYTES_64(n) BYTES_16(n), BYTES_16((n) + 16), BYTES_16((n) + 32), BYTES_16((n) + 48)

static const uint32_t table[256] = {BYTES_64(0), BYTES_64(64), BYTES_64(128), BYTES_64(192)};

uint32_t dt_crc32c_portable(uint32_t crc, struct dt_bytes bytes)
{
    crc = ~crc;
    for (size_t i = 0; i < bytes.len; i++)
        crc = crc >> 8 ^ table[(crc ^ bytes.at[i]) & 0xff];
    return ~crc;
}

#if defined(__x86_64__) || defined(__AARCH64EL__)

#if defined(__x86_64__)

#define WITH_INSTRUCTION __attribute__((target("sse4.2")))

static bool has_instruction(void)
{
    return __builtin_cpu_supports("sse4.2");
}

WITH_INSTRUCTION static uint32_t add_word(uint32_t crc, uint64_t word)
{
    return (uint32_t)_mm_crc32_u64(crc, word);
}

WITH_INSTRUCTION static uint32_t add_byte(uint32_t crc, uint8_t byte)
{
    return _mm_crc32_u8(crc, byte);
}

#else

#define WITH_INSTRUCTION

static bool has_instruction(void)
{
    return (getauxval(AT_HWCAP) & HWCAP_CRC32) != 0;
}

/* Not by arm_acle.h: some compilers hide it from code that must also run without. */
static uint32_t add_word(uint32_t crc, uint64_t word)
{
    __asm__(".arch_extension crc\n\tcrc32cx %w0, %w0, %x1" : "+r"(crc) : "r"(word));
    return crc;
}

static uint32_t add_byte(uint32_t crc, uint8_t byte)
{
    __asm__(".arch_extension crc\n\tcrc32cb %w0, %w0, %w1" : "+r"(crc) : "r"((uint32_t)byte));
    return crc;
}

#endif

WITH_INSTRUCTION static uint32_t by_instruction(uint32_t crc, struct dt_bytes bytes)
{
    size_t i = 0;
    crc = ~crc;
    for (; bytes.len - i >= sizeof(uint64_t); i += sizeof(uint64_t)) {
        uint64_t word;
        memcpy(&word, bytes.at + i, sizeof word);
        crc = add_word(crc, word);
    }
    for (; i < bytes.len; i++)
        crc = add_byte(crc, bytes.at[i]);
    return ~crc;
}

uint32_t dt_crc32c(uint32_t crc, struct dt_bytes bytes)
{
    return has_instruction() ? by_instruction(crc, bytes) : dt_crc32c_portable(crc, bytes);
}

#else

uint32_t dt_crc32c(uint32_t crc, struct dt_bytes bytes)
{
    return dt_crc32c_portable(crc, bytes);
}

#endif

/* The rest is about polynomials over bits, modulo that of the CRC, turned around as the CRC is: bit
 * 31 is the 1, bit 0 is x^31. */
#define POLYNOMIAL 0x82f63b78u
#define ONE 0x80000000u
#define X_8 0x00800000u

static uint32_t multiply(uint32_t a, uint32_t b)
{
    uint32_t product = 0;
    for (uint32_t bit = ONE; bit; bit >>= 1) {
        if (a & bit)
            product ^= b;
        b = b & 1 ? b >> 1 ^ POLYNOMIAL : b >> 1;
    }
    return product;
}

/* A byte behind A multiplies what A leaves by x^8; B's own CRC is then added. The two inversions of
 * A and of B cancel out. */
uint32_t dt_crc32c_combine(uint32_t crc_a, uint32_t crc_b, uint64_t len_b)
{
    uint32_t shift = ONE;
    for (uint32_t power = X_8; len_b; len_b >>= 1, power = multiply(power, power))
        if (len_b & 1)
            shift = multiply(shift, power);
    return multiply(shift, crc_a) ^ crc_b;
}
