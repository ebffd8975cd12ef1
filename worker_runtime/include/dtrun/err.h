/* SPDX-License-Identifier: Apache-2.0 */
/* The error value of dtrun's floors; base/err.h is installed under this name. */
#include "base/err.h"
