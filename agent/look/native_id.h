/* SPDX-License-Identifier: Apache-2.0 */
/* The number that gettid(2) tells a thread, by the address that pthread_self(3) tells it. CPython
 * before 3.11 knows the latter alone; glibc keeps the former behind it, at a place that has not
 * changed since debuggers and sanitizers rely on it. Pure but for the reads. */
#ifndef DT_AGENT_LOOK_NATIVE_ID_H
#define DT_AGENT_LOOK_NATIVE_ID_H

#include "agent/look/memory.h"

/* 0: it is not known, as this is another C library or another machine than x86-64. */
uint64_t dt_native_id_read(struct dt_memory *m, uint64_t pthread);

#endif
