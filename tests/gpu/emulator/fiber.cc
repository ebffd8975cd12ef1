/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/gpu/emulator/fiber.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#ifndef __x86_64__
#include <ucontext.h>
#endif

#if defined(__SANITIZE_ADDRESS__)
#define DT_FIBER_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define DT_FIBER_ASAN 1
#endif
#endif
#ifdef DT_FIBER_ASAN
#include <sanitizer/common_interface_defs.h>
#endif

namespace dt_emulator
{

enum { STACK = 256 * 1024, GUARD = 64 * 1024 };

#ifdef __x86_64__
typedef void *context;
#else
typedef ucontext_t context;
#endif

struct fiber {
    unsigned char *stack;
    context inside, outside; /* where to go on */
    void (*fn)(void *);
    void *arg;
    /* AddressSanitizer wants to know which stack is in use. */
    void *fake_inside, *fake_outside;
    const void *outside_stack;
    size_t outside_size;
};

#ifdef __x86_64__

/* Saves what a function must preserve on this stack, its top in *FROM, and goes on at TO, a top
 * that was saved the same way. */
extern "C" void dt_emulator_switch(void **from, void *to);
asm(".text\n"
    ".hidden dt_emulator_switch\n"
    ".globl dt_emulator_switch\n"
    ".type dt_emulator_switch, @function\n"
    "dt_emulator_switch:\n"
    "    pushq %rbp\n"
    "    pushq %rbx\n"
    "    pushq %r12\n"
    "    pushq %r13\n"
    "    pushq %r14\n"
    "    pushq %r15\n"
    "    movq %rsp, (%rdi)\n"
    "    movq %rsi, %rsp\n"
    "    popq %r15\n"
    "    popq %r14\n"
    "    popq %r13\n"
    "    popq %r12\n"
    "    popq %rbx\n"
    "    popq %rbp\n"
    "    ret\n"
    ".size dt_emulator_switch, . - dt_emulator_switch\n");

static void jump(context *from, context *to)
{
    dt_emulator_switch(from, *to);
}

#else

static void jump(context *from, context *to)
{
    swapcontext(from, to);
}

#endif

static void go_in(fiber *f)
{
#ifdef DT_FIBER_ASAN
    __sanitizer_start_switch_fiber(&f->fake_outside, f->stack, STACK);
#endif
    jump(&f->outside, &f->inside);
#ifdef DT_FIBER_ASAN
    __sanitizer_finish_switch_fiber(f->fake_outside, nullptr, nullptr);
#endif
}

static void go_out(fiber *f)
{
#ifdef DT_FIBER_ASAN
    __sanitizer_start_switch_fiber(&f->fake_inside, f->outside_stack, f->outside_size);
#endif
    jump(&f->inside, &f->outside);
#ifdef DT_FIBER_ASAN
    __sanitizer_finish_switch_fiber(f->fake_inside, &f->outside_stack, &f->outside_size);
#endif
}

static fiber *newborn; /* whose stack is entered for the first time */

static void live()
{
    fiber *f = newborn;
#ifdef DT_FIBER_ASAN
    __sanitizer_finish_switch_fiber(nullptr, &f->outside_stack, &f->outside_size);
#endif
    for (;;) {
        f->fn(f->arg);
        go_out(f);
    }
}

static void prepare(fiber *f)
{
#ifdef __x86_64__
    /* As dt_emulator_switch() leaves a stack: six registers, then where to return to. A function
     * is entered with the stack 8 bytes off a multiple of 16. */
    void **top = reinterpret_cast<void **>(f->stack + STACK) - 2;
    *top = reinterpret_cast<void *>(live);
    f->inside = top - 6;
#else
    getcontext(&f->inside);
    f->inside.uc_stack.ss_sp = f->stack;
    f->inside.uc_stack.ss_size = STACK;
    f->inside.uc_link = nullptr;
    makecontext(&f->inside, live, 0);
#endif
}

fiber *fiber_create()
{
    fiber *f = new fiber();
    void *at = mmap(nullptr, GUARD + STACK, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED ||
        mprotect(static_cast<char *>(at) + GUARD, STACK, PROT_READ | PROT_WRITE) != 0) {
        perror("emulator: no memory for a thread's stack");
        abort();
    }
    f->stack = static_cast<unsigned char *>(at) + GUARD;
    prepare(f);
    return f;
}

void fiber_start(fiber *f, void (*fn)(void *), void *arg)
{
    f->fn = fn;
    f->arg = arg;
    newborn = f;
    go_in(f);
}

void fiber_resume(fiber *f)
{
    go_in(f);
}

void fiber_leave(fiber *f)
{
    go_out(f);
}

} // namespace dt_emulator
