/* SPDX-License-Identifier: Apache-2.0 */
/* One profile of ~/.aws/config or ~/.aws/credentials. Pure. */
#ifndef DT_BASE_TRANSFER_PROFILE_H
#define DT_BASE_TRANSFER_PROFILE_H

#include "base/buf.h"
#include "base/err.h"
#include "base/transfer/sigv4.h"

#include <limits.h>
#include <stdbool.h>

#define DT_PROFILE_MAX ((size_t)1 << 20) /* bytes of such a file */

/* Zeroed: nothing is known. */
struct dt_profile {
    bool found; /* a file has this profile */
    struct dt_keys keys;
    char region[32], endpoint[512], ca_file[PATH_MAX];
    char role[256], role_token_file[PATH_MAX]; /* web identity */
    bool has_process; /* its keys come from a program, or by way of another profile or SSO: which
                       * nothing here follows */
};

enum dt_profile_file { DT_PROFILE_CREDENTIALS, DT_PROFILE_CONFIG };

/* Adds what TEXT says of the profile NAME; what PROFILE has already stays. In the file config a
 * profile's heading is [profile NAME], but for [default]. *err names the line, and shows nothing of
 * it, as it may hold a secret. */
int dt_profile_read(struct dt_profile *profile, struct dt_bytes text, enum dt_profile_file file,
                    const char *name, struct dt_err *err);

#endif
