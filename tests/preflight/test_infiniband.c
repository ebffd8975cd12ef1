/* SPDX-License-Identifier: Apache-2.0 */
#include "preflight/probes/infiniband.h"
#include "tests/preflight/judged.h"

BEFORE_ALL
{
    folder_make();
}

static void file_of(const char *host, const char *device, const char *file, const char *text)
{
    char path[160];
    snprintf(path, sizeof path, "/sys/class/infiniband/%s/ports/1/%s", device, file);
    put(host, path, text);
}

static void port_of(const char *host, const char *device, const char *state, const char *physical,
                    const char *layer, const char *rate)
{
    file_of(host, device, "state", state);
    file_of(host, device, "phys_state", physical);
    file_of(host, device, "link_layer", layer);
    file_of(host, device, "rate", rate);
    file_of(host, device, "counters/link_downed", "0\n");
    put(host, "/dev/infiniband/uverbs0", "");
}

static const struct dt_sheet *look(const char *host)
{
    struct dt_sheet *s = fresh_sheet();
    dt_ib_probe(&(struct dt_checkup){.root = at(host)}, s);
    return s;
}

TEST(a_host_without_it)
{
    check_said(look("bare"), "ok: this host has none");
}

TEST(ports_of_infiniband)
{
    port_of("a", "mlx5_0", "4: ACTIVE\n", "5: LinkUp\n", "InfiniBand\n", "400 Gb/sec (4X NDR)\n");
    port_of("a", "mlx5_1", "4: ACTIVE\n", "5: LinkUp\n", "InfiniBand\n", "400 Gb/sec (4X NDR)\n");
    check_said(look("a"), "ok: 2 ports active, 400 Gb/sec (4X NDR)");
    CHECK_STR(dt_sheet_trait(look("a"), "InfiniBand"), "2 of 2 ports active");
    port_of("a", "mlx5_1", "1: DOWN\n", "3: Disabled\n", "InfiniBand\n", "40 Gb/sec (4X QDR)\n");
    check_said(look("a"), "warn: mlx5_1 port 1 is DOWN (Disabled), others of this host are active");
    port_of("a", "mlx5_1", "4: ACTIVE\n", "5: LinkUp\n", "InfiniBand\n", "200 Gb/sec (4X HDR)\n");
    check_said(look("a"), "note: mlx5_0 runs at 400 Gb/sec (4X NDR), but mlx5_1 at 200");
    port_of("down", "mlx5_0", "1: DOWN\n", "2: Polling\n", "InfiniBand\n", "\n");
    check_said(look("down"), "note: mlx5_0 port 1 is DOWN (Polling)");
    file_of("a", "mlx5_0", "counters/link_downed", "3\n");
    check_said(look("a"), "note: the link of mlx5_0 port 1 went down 3 times");
}

TEST(a_container_without_its_devices)
{
    port_of("c", "mlx5_0", "4: ACTIVE\n", "5: LinkUp\n", "InfiniBand\n", "400 Gb/sec\n");
    CHECK(remove(at("c/dev/infiniband/uverbs0")) == 0);
    check_said(look("c"), "warn: there are active ports, but no /dev/infiniband/uverbs");
}

TEST(addresses_of_roce)
{
    port_of("r", "mlx5_0", "4: ACTIVE\n", "5: LinkUp\n", "Ethernet\n", "100 Gb/sec\n");
    file_of("r", "mlx5_0", "gid_attrs/types/0", "IB/RoCE v1\n");
    file_of("r", "mlx5_0", "gids/0", "0000:0000:0000:0000:0000:ffff:0a00:0007\n");
    file_of("r", "mlx5_0", "gid_attrs/types/1", "RoCE v2\n");
    file_of("r", "mlx5_0", "gids/1", "fe80:0000:0000:0000:0a00:27ff:fe00:0001\n");
    check_said(look("r"), "warn: mlx5_0 port 1 speaks RoCE and has no address for version 2");
    file_of("r", "mlx5_0", "gid_attrs/types/2", "RoCE v2\n");
    file_of("r", "mlx5_0", "gids/2", "0000:0000:0000:0000:0000:0000:0000:0000\n");
    check_said(look("r"), "warn: mlx5_0 port 1 speaks RoCE and has no address for version 2");
    file_of("r", "mlx5_0", "gids/2", "0000:0000:0000:0000:0000:ffff:0a00:0007\n");
    check_said(look("r"), "ok: 1 port active");
}
