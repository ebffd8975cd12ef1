/* SPDX-License-Identifier: Apache-2.0 */
/* The smallest worker: dtrun --nproc-per-node 4 build/examples/hello
 *
 * Each finds the store where dtrun says, leaves its name there, waits until all have come, and
 * prints who met. */
#include "base/str.h"
#include "rendezvous/protocol/c10d.h"
#include "rendezvous/protocol/sync_client.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

/* A number from the environment; -1 and *err when dtrun did not set it. */
static int number(const char *name, int64_t min, int64_t max, int64_t *out, struct dt_err *err)
{
    const char *text = getenv(name);
    if (!text)
        return dt_err_set(err, DT_E_USAGE, "%s is not set; try: dtrun --nproc-per-node 4 ./hello",
                          name);
    return dt_str_to_int(text, min, max, out, err) < 0 ? dt_err_wrap(err, "%s", name) : 0;
}

static struct dt_sync_client *connect_to_store(struct dt_err *err)
{
    char addr[300];
    int64_t port;
    const char *host = getenv("MASTER_ADDR");
    if (number("MASTER_PORT", 1, 65535, &port, err) < 0)
        return NULL;
    bool bare_ipv6 = host && strchr(host, ':') && host[0] != '[';
    if (bare_ipv6)
        snprintf(addr, sizeof addr, "[%s]:%d", host, (int)port);
    else
        snprintf(addr, sizeof addr, "%s:%d", host ? host : "localhost", (int)port);
    return dt_sync_client_open(addr, PATIENCE, err);
}

int main(int argc, char **argv)
{
    struct dt_err err;
    int64_t rank, world_size;
    struct dt_sync_client *store = NULL;
    int rc = -1;
    (void)argc;
    if (number("WORLD_SIZE", 1, 1000000, &world_size, &err) == 0 &&
        number("RANK", 0, world_size - 1, &rank, &err) == 0 && (store = connect_to_store(&err)))
        rc = meet(store, (int)rank, (int)world_size, &err);
    if (rc < 0)
        fprintf(stderr, "%s: %s\n", argv[0], err.text);
    dt_sync_client_close(store);
    return rc < 0;
}
