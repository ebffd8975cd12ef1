/* SPDX-License-Identifier: Apache-2.0 */
/* Whether AddressSanitizer or ThreadSanitizer is in this program: they reserve address space, so
 * that no limit of it can be set, and keep what was freed. */
#ifndef DT_TESTS_LIB_SANITIZED_H
#define DT_TESTS_LIB_SANITIZED_H

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED true
#elif defined(__has_feature)
#define SANITIZED (__has_feature(address_sanitizer) || __has_feature(thread_sanitizer))
#else
#define SANITIZED false
#endif

#endif
