/* SPDX-License-Identifier: Apache-2.0 */
#include "base/user.h"

#include <pwd.h>
#include <stdio.h>
#include <unistd.h>

const char *dt_user_name(char out[DT_USER_MAX])
{
    struct passwd entry, *found = NULL;
    char text[1024];
    if (getpwuid_r(geteuid(), &entry, text, sizeof text, &found) == 0 && found)
        snprintf(out, DT_USER_MAX, "%s", found->pw_name);
    else
        snprintf(out, DT_USER_MAX, "uid %u", (unsigned)geteuid());
    return out;
}
