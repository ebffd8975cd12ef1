/* SPDX-License-Identifier: Apache-2.0 */
/* The names of the tree's cuda/kernels/launch.cuh, for a CPU: meson.build puts this folder's parent
 * before the tree's top folder on the include path. */
#include "tests/gpu/emulator/emulator.h"
