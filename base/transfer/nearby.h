/* SPDX-License-Identifier: Apache-2.0 */
/* Servers that hand out keys: the metadata service of a machine, the endpoint of a container, and
 * the one that takes a token for a web identity. Each is asked a few times, for seconds at most. */
#ifndef DT_BASE_TRANSFER_NEARBY_H
#define DT_BASE_TRANSFER_NEARBY_H

#include "base/err.h"
#include "base/transfer/http.h"
#include "base/transfer/sigv4.h"

#include <stdatomic.h>

/* ENDPOINT NULL: the address that all clouds of that kind have. Only with a session's token, the
 * service's second version. */
int dt_nearby_machine(const struct dt_curl_table *lib, const char *endpoint,
                      const atomic_bool *stop, struct dt_keys *keys, struct dt_err *err);

struct dt_container_endpoint {
    const char *path, *url;         /* one of them: below the usual address, or whole */
    const char *token, *token_file; /* NULL: none */
};

/* Without TLS only this host and the usual addresses are asked, as the token goes with it. */
int dt_nearby_container(const struct dt_curl_table *lib, const struct dt_container_endpoint *where,
                        const atomic_bool *stop, struct dt_keys *keys, struct dt_err *err);

struct dt_web_identity {
    const char *role, *token_file;
    const char *session;  /* NULL: "dtrun" */
    const char *endpoint; /* NULL: Amazon's of REGION */
    const char *region, *ca_file;
};

int dt_nearby_web_identity(const struct dt_curl_table *lib, const struct dt_web_identity *who,
                           const atomic_bool *stop, struct dt_keys *keys, struct dt_err *err);

#endif
