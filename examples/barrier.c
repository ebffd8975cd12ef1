/* SPDX-License-Identifier: Apache-2.0 */
/* Some processes meet: barrier HOST:PORT RANK WORLD_SIZE
 *
 * Each leaves its name in the store, waits until all have come, and prints who met. A key serves
 * for one barrier, so run it once per store. */
#include "base/str.h"
#include "rendezvous/protocol/c10d.h"
#include "rendezvous/protocol/sync_client.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define PATIENCE (60 * DT_SECOND)

static int set_name(struct dt_sync_client *store, int rank, struct dt_err *err)
{
    char key[32], host[65] = "", name[100];
    gethostname(host, sizeof host - 1);
    snprintf(key, sizeof key, "met/%d", rank);
    snprintf(name, sizeof name, "%s, process %d", host, (int)getpid());
    return dt_sync_client_set(store, dt_bytes_of(key), dt_bytes_of(name), err);
}

static int print_names(struct dt_sync_client *store, int world_size, struct dt_err *err)
{
    struct dt_buf name = {0};
    int rc = 0;
    for (int rank = 0; rank < world_size && rc == 0; rank++) {
        char key[32];
        snprintf(key, sizeof key, "met/%d", rank);
        rc = dt_sync_client_get(store, dt_bytes_of(key), &name, err);
        if (rc == 0)
            printf("rank %d is %s\n", rank, dt_buf_cstr(&name));
    }
    dt_buf_finish(&name);
    return rc;
}

static int meet(struct dt_sync_client *store, int rank, int world_size, struct dt_err *err)
{
    if (set_name(store, rank, err) < 0 ||
        dt_sync_client_barrier(store, dt_bytes_of("met"), world_size, PATIENCE, err) < 0)
        return -1;
    printf("rank %d of %d: all are here\n", rank, world_size);
    return rank == 0 ? print_names(store, world_size, err) : 0;
}

int main(int argc, char **argv)
{
    struct dt_err err;
    if (argc != 4) {
        fprintf(stderr, "usage: %s HOST:PORT RANK WORLD_SIZE\n", argv[0]);
        return 2;
    }
    int64_t rank, world_size;
    struct dt_sync_client *store = NULL;
    int rc = -1;
    if (dt_str_to_int(argv[3], 1, 1000000, &world_size, &err) == 0 &&
        dt_str_to_int(argv[2], 0, world_size - 1, &rank, &err) == 0 &&
        (store = dt_sync_client_open(argv[1], PATIENCE, &err)))
        rc = meet(store, (int)rank, (int)world_size, &err);
    if (rc < 0)
        fprintf(stderr, "%s: %s\n", argv[0], err.text);
    dt_sync_client_close(store);
    return rc < 0;
}
