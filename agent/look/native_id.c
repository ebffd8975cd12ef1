/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/look/native_id.h"

#include <limits.h>
#include <string.h>

/* In glibc's struct pthread. Its address stands in it twice. */
#define PTHREAD_ITSELF 0
#define PTHREAD_SELF 16
#define PTHREAD_TID 720
#define PTHREAD_BYTES 724

#if defined(__x86_64__)
#define MACHINE_IS_KNOWN 1
#else
#define MACHINE_IS_KNOWN 0
#endif

uint64_t dt_native_id_read(struct dt_memory *m, uint64_t pthread)
{
    uint8_t head[PTHREAD_BYTES];
    uint64_t itself, self;
    uint32_t tid;
    if (!MACHINE_IS_KNOWN || dt_memory_read(m, pthread, head, sizeof head) < 0)
        return 0;
    memcpy(&itself, head + PTHREAD_ITSELF, sizeof itself);
    memcpy(&self, head + PTHREAD_SELF, sizeof self);
    memcpy(&tid, head + PTHREAD_TID, sizeof tid);
    return itself == pthread && self == pthread && tid <= INT_MAX ? tid : 0;
}
