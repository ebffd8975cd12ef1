/* SPDX-License-Identifier: Apache-2.0 */
/* Who runs this process, as other hosts know that user: numbers of users are each host's own. */
#ifndef DT_BASE_USER_H
#define DT_BASE_USER_H

#define DT_USER_MAX 64 /* with the NUL */

/* The name, or "uid 1000" where this host has none. */
const char *dt_user_name(char out[DT_USER_MAX]);

#endif
