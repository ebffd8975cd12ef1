/* SPDX-License-Identifier: Apache-2.0 */
/* Where the keys of requests come from, as Amazon's own programs look for them: the environment, a
 * token of a web identity, the profile in ~/.aws, a container's endpoint, the metadata service of
 * the machine. The first one that is set up is taken, and is asked again when its keys pass away.
 *
 * No key, token or part of one is in any message. One thread. */
#ifndef DT_BASE_TRANSFER_KEYRING_H
#define DT_BASE_TRANSFER_KEYRING_H

#include "base/err.h"
#include "base/transfer/http.h"
#include "base/transfer/profile.h"
#include "base/transfer/sigv4.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum dt_key_source {
    DT_KEYS_ENVIRONMENT,
    DT_KEYS_WEB_IDENTITY,
    DT_KEYS_PROFILE,
    DT_KEYS_CONTAINER,
    DT_KEYS_MACHINE,
};

struct dt_keyring {
    const struct dt_curl_table *lib;
    const atomic_bool *stop;
    enum dt_key_source source;
    struct dt_keys keys;
    struct dt_profile profile; /* its region and endpoint are for whoever opens a store */
    const char *profile_name;  /* NULL: the environment's, or "default" */
    char region[32];           /* as far as it is known before a store is asked; else "" */
};

/* Small letters, digits and dashes: a region becomes a part of hosts and of headers. */
bool dt_is_region(const char *text);

/* Reads the profile NAME (NULL: AWS_PROFILE, then "default") and sets .region to GIVEN, the
 * environment's, or the profile's. A profile that was named and is nowhere is an error. NAME must
 * outlive the ring. Asks nobody. */
int dt_keyring_init(struct dt_keyring *k, const struct dt_curl_table *lib, const char *name,
                    const char *given, const atomic_bool *stop, struct dt_err *err);
/* Wipes the keys. */
void dt_keyring_finish(struct dt_keyring *k);

/* Gets keys, for the first time or newer ones; where that fails, those that were there stay. May
 * ask a server nearby, seconds at most. */
int dt_keyring_fetch(struct dt_keyring *k, struct dt_err *err);

/* Whether there are no keys, or they pass away too soon for a request to begin with them. */
bool dt_keyring_is_due(const struct dt_keyring *k, int64_t now);
/* Whether dt_keyring_fetch() may bring others than those it brought. */
bool dt_keyring_can_change(const struct dt_keyring *k);

#endif
