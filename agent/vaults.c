/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/vaults.h"

#include "agent/process/self.h"
#include "base/fs.h"
#include "base/log.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct pair {
    int own, peer; /* 0: not there; standard descriptors are, dt_fs_reserve_standard_fds() */
};

struct dt_vaults {
    int count;
    struct pair pairs[];
};

static bool make_one(const char *name, int *out)
{
    int fd = dt_fs_make_in_memory(name);
    *out = fd > 0 ? fd : 0;
    return fd > 0;
}

struct dt_vaults *dt_vaults_create(int count)
{
    if (dt_self_is_short_of_files(count))
        return NULL; /* as was said of progress pages */
    struct dt_vaults *v = calloc(1, sizeof *v + (size_t)count * sizeof v->pairs[0]);
    bool made = v != NULL;
    if (v)
        v->count = count;
    for (int i = 0; made && i < count; i++)
        made = make_one("dtrun-vault", &v->pairs[i].own) &&
               make_one("dtrun-vault-peer", &v->pairs[i].peer);
    if (made)
        return v;
    dt_info("workers get no vault, so a run of dtrun-train that loses one goes back to its last "
            "checkpoint: %s",
            strerror(v ? errno : ENOMEM));
    dt_vaults_destroy(v);
    return NULL;
}

void dt_vaults_destroy(struct dt_vaults *v)
{
    for (int i = 0; v && i < v->count; i++) {
        if (v->pairs[i].own)
            close(v->pairs[i].own);
        if (v->pairs[i].peer)
            close(v->pairs[i].peer);
    }
    free(v);
}

int dt_vaults_count(const struct dt_vaults *v)
{
    return v ? v->count : 0;
}

int dt_vaults_own(const struct dt_vaults *v, int local_rank)
{
    return v ? v->pairs[local_rank].own : 0;
}

int dt_vaults_peer(const struct dt_vaults *v, int local_rank)
{
    return v ? v->pairs[local_rank].peer : 0;
}
