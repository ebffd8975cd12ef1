/* SPDX-License-Identifier: Apache-2.0 */
/* The mock GPU's memory: a range of addresses that this process can touch only inside a
 * device_work. Anything else ends by SIGSEGV, as does what lies behind an allocation and what was
 * freed: addresses are not used twice. Fresh memory is not zero. */
#ifndef DT_TESTS_GPU_EMULATOR_MEMORY_H
#define DT_TESTS_GPU_EMULATOR_MEMORY_H

#include <stddef.h>

namespace dt_emulator
{

/* As long as it lives, this thread is the device. Can be nested. */
class device_work
{
  public:
    device_work();
    ~device_work();
    device_work(const device_work &) = delete;
    device_work &operator=(const device_work &) = delete;
};

enum class memory_kind { PAGEABLE, PINNED, DEVICE };
memory_kind kind_of(const void *at);

/* 256-byte aligned; NULL when more than DT_EMULATOR_MEMORY bytes would be in use. */
void *device_alloc(size_t bytes);
bool device_free(void *at); /* false: not an allocation */
size_t device_bytes();      /* DT_EMULATOR_MEMORY, 1 GiB */
size_t device_bytes_used();
void device_clear(void *at, size_t bytes); /* to zeros */
/* Whether [AT, AT + BYTES) is within one allocation. */
bool device_holds(const void *at, size_t bytes);

void *pinned_alloc(size_t bytes);
bool pinned_free(void *at);

/* A number from the environment, or OTHERWISE. */
size_t number_from(const char *variable, size_t otherwise);

} // namespace dt_emulator

#endif
