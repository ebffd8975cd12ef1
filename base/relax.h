/* SPDX-License-Identifier: Apache-2.0 */
/* What a thread says to its processor while it looks at a word again and again. */
#ifndef DT_BASE_RELAX_H
#define DT_BASE_RELAX_H

static inline void dt_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

#endif
