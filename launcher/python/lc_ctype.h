/* SPDX-License-Identifier: Apache-2.0 */
/* The locale that workers inherit. torchrun is a Python program, and a Python that starts in the C
 * locale sets LC_CTYPE to one of UTF-8, in its own environment and so in that of all it starts (PEP
 * 538). We are no Python, so the same is decided here. */
#ifndef DT_LAUNCHER_PYTHON_LC_CTYPE_H
#define DT_LAUNCHER_PYTHON_LC_CTYPE_H

#include "launcher/facts.h"

/* What Python would set LC_CTYPE to; static. NULL: it would leave LC_CTYPE alone. */
const char *dt_lc_ctype_coerced(const struct dt_facts *facts);

#endif
