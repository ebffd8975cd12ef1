/* SPDX-License-Identifier: Apache-2.0 */
/* A GPU reads and writes what is as aligned as its type says, and ends a kernel that asks for
 * anything else; x86-64 does not mind. So kernels are compiled with the compiler's checks of
 * alignment, and what those call is here and not in the sanitizer's library, for then the message
 * says which kernel and thread it was. (clang 14 does not check where a whole struct is copied; gcc
 * does.) */
#include "tests/gpu/emulator/emulator.h"

/* As compilers lay them out. */
struct dt_ubsan_type {
    uint16_t kind, info;
    char name[1];
};

struct dt_ubsan_mismatch {
    const char *file;
    uint32_t line, column;
    const dt_ubsan_type *type;
    unsigned char log_alignment, kind;
};

extern "C" [[noreturn]] void __ubsan_handle_type_mismatch_v1_abort(const dt_ubsan_mismatch *m,
                                                                   uintptr_t at)
{
    dt_emulator::give_up("%s:%u: %s at %#zx, which is not aligned to %d bytes", m->file,
                         unsigned(m->line), m->type->name, size_t(at), 1 << m->log_alignment);
}
