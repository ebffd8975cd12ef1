/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/check.h"

#include <dtrun/api.h>

TEST(the_library_says_which_version_it_is)
{
    CHECK_STR(dt_version(), DT_VERSION);
}
