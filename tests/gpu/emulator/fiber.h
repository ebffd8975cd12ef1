/* SPDX-License-Identifier: Apache-2.0 */
/* Threads that give way to each other by hand: a stack each, and a jump between stacks. There is
 * one outside, which called fiber_resume(), and at most one fiber running. A fiber is used again
 * for the next function when the one before has returned. */
#ifndef DT_TESTS_GPU_EMULATOR_FIBER_H
#define DT_TESTS_GPU_EMULATOR_FIBER_H

namespace dt_emulator
{

struct fiber;

fiber *fiber_create();
/* Runs FN(ARG) on F until it calls fiber_leave() or returns. */
void fiber_start(fiber *f, void (*fn)(void *), void *arg);
/* Goes on where F left. */
void fiber_resume(fiber *f);
/* From inside F: back to who started or resumed it. */
void fiber_leave(fiber *f);

} // namespace dt_emulator

#endif
