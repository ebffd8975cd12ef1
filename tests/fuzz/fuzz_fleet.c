/* SPDX-License-Identifier: Apache-2.0 */
/* What the two sides of a fleet say to each other, and hostfiles, from any bytes. An order that is
 * taken is written again as the same bytes; a list of hosts has no name that a program would take
 * for an option. */
#include "launcher/fleet/hosts.h"
#include "launcher/fleet/order.h"
#include "tests/fuzz/fuzz.h"

#include <string.h>

static void try_order(struct dt_bytes body)
{
    struct dt_fleet_order order;
    struct dt_buf again = {0};
    struct dt_err err = {0};
    if (dt_fleet_order_read(body, &order, &err) == 0) {
        FUZZ_CHECK(order.argv[0] != NULL);
        FUZZ_CHECK(dt_fleet_order_put(&again, &order, &err) == 0);
        FUZZ_CHECK(again.len == body.len + 4 && memcmp(again.at + 4, body.at, body.len) == 0);
    } else {
        FUZZ_CHECK(*err.text);
    }
    dt_buf_finish(&again);
    dt_fleet_order_finish(&order);
}

static void try_hosts(struct dt_bytes text)
{
    struct dt_fleet_hosts hosts = {0};
    struct dt_err err = {0};
    int rc = dt_fleet_hosts_read_file(&hosts, text, "hosts", &err);
    FUZZ_CHECK(rc == 0 ? hosts.len > 0 : *err.text != '\0');
    for (size_t i = 0; i < hosts.len; i++) {
        FUZZ_CHECK(hosts.at[i].name[0] && hosts.at[i].name[0] != '-');
        FUZZ_CHECK(*dt_fleet_host_label(&hosts.at[i]));
        FUZZ_CHECK(hosts.at[i].slots >= 0);
    }
    dt_fleet_hosts_finish(&hosts);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct dt_fleet_hello hello;
    struct dt_bytes bytes = {data, size};
    if (dt_fleet_hello_read(bytes, &hello))
        FUZZ_CHECK(*hello.version && hello.port >= 0 && hello.port < 65536);
    try_order(bytes);
    try_hosts(bytes);
    return 0;
}
