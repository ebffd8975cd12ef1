/* SPDX-License-Identifier: Apache-2.0 */
/* `dtrun-train --check-nccl` on hosts that are made up: files in a folder, variables in a list, and
 * GPUs in a table of calls. */
#include "cuda/nccl/check.h"

#include "tests/gpu/fake_nccl.h"
#include "tests/lib/folder.h"

#include <sys/stat.h>

static struct host { /* what its CUDA answers */
    int driver, runtime, gpus;
    bool apart; /* GPU 0 and GPU 1 */
    char said[8000];
} host;

static cudaError_t driver_version(int *v)
{
    *v = host.driver;
    return cudaSuccess;
}

static cudaError_t runtime_version(int *v)
{
    *v = host.runtime;
    return cudaSuccess;
}

static cudaError_t devices(int *n)
{
    *n = host.gpus;
    return host.gpus ? cudaSuccess : cudaErrorNoDevice;
}

static cudaError_t properties(struct cudaDeviceProp *p, int ordinal)
{
    memset(p, 0, sizeof *p);
    snprintf(p->name, sizeof p->name, "NVIDIA Mock");
    p->totalGlobalMem = (size_t)3 << 30;
    p->major = 9;
    p->pciBusID = 0x1b + ordinal;
    return cudaSuccess;
}

static cudaError_t can_access(int *can, int ordinal, int peer)
{
    *can = !(host.apart && ordinal + peer == 1);
    return cudaSuccess;
}

static struct dt_nccl_calls calls_of_host(void)
{
    struct dt_nccl_calls c = fake_copy();
    c.driver_version = driver_version;
    c.runtime_version = runtime_version;
    c.devices = devices;
    c.properties = properties;
    c.can_access = can_access;
    return c;
}

static void take(void *arg, enum dt_check_level level, const char *line)
{
    size_t n = strlen(host.said);
    (void)arg;
    snprintf(host.said + n, sizeof host.said - n, "%c %s\n", ".?!"[level], line);
}

static void healthy(void)
{
    fake_reset();
    fake.version_is = NCCL_VERSION_CODE;
    host = (struct host){.driver = 13000, .runtime = 13000, .gpus = 2};
}

static int check_host(const char *root, const char *const *env)
{
    struct dt_nccl_calls calls = calls_of_host();
    struct dt_check c = {.calls = &calls, .root = root, .env = env, .say = take};
    return dt_check_all(&c);
}

static void check_said(const char *line)
{
    bool was = strstr(host.said, line) != NULL;
    CHECK_ROW("wanted \"%s\" in what follows", line);
    if (!was)
        check_say(host.said);
    CHECK(was);
}

static void put(const char *root, const char *path, const char *text)
{
    char full[400];
    snprintf(full, sizeof full, "%s/%s", root, path);
    for (char *at = strchr(full + strlen(root) + 1, '/'); at; at = strchr(at + 1, '/')) {
        *at = '\0';
        mkdir(full, 0755);
        *at = '/';
    }
    FILE *f = fopen(full, "w");
    CHECK(f && fputs(text, f) >= 0 && fclose(f) == 0);
}

static void furnish(const char *root)
{
    put(root, "dev/shm/x", "");
    put(root, "sys/class/net/lo/operstate", "unknown\n");
    put(root, "sys/class/net/eth0/operstate", "up\n");
    put(root, "sys/class/net/eth0/speed", "25000\n");
    put(root, "sys/class/net/eth1/operstate", "down\n");
    put(root, "sys/class/infiniband/mlx5_0/ports/1/state", "4: ACTIVE\n");
    put(root, "sys/class/infiniband/mlx5_0/ports/1/rate", "400 Gb/sec (4X NDR)\n");
    put(root, "sys/class/infiniband/mlx5_0/ports/1/link_layer", "InfiniBand\n");
    put(root, "sys/class/infiniband/mlx5_1/ports/1/state", "1: DOWN\n");
    put(root, "sys/class/infiniband/mlx5_1/ports/1/rate", "10 Gb/sec\n");
    put(root, "sys/class/infiniband/mlx5_1/ports/1/link_layer", "Ethernet\n");
}

BEFORE_ALL
{
    folder_make();
    furnish(dir);
}

static const char *const nothing_set[] = {NULL};

TEST(a_host_in_order_has_no_problems)
{
    healthy();
    CHECK_EQ(check_host(dir, nothing_set), 0);
    check_said(". GPU 1: NVIDIA Mock, 3.0 GiB, compute capability 9.0, PCI 0000:1c:00\n");
    check_said(". all 2 GPUs reach each other's memory");
    check_said(". the driver is for CUDA 13.0, the runtime is CUDA 13.0\n");
    check_said(". InfiniBand mlx5_0 port 1 is ACTIVE, 400 Gb/sec (4X NDR)\n");
    check_said("? RoCE mlx5_1 port 1 is DOWN, 10 Gb/sec: NCCL does not use it");
    check_said("? nvidia_peermem is not loaded");
    check_said(". interface eth0 is up, 25000 Mb/s\n");
    check_said(". interface eth1 is down\n");
    CHECK(!strstr(host.said, "interface lo"));
}

TEST(a_host_without_anything_says_so)
{
    healthy();
    host.driver = 0;
    CHECK_EQ(check_host("/nowhere", nothing_set), 2);
    check_said("! no NVIDIA driver");
    check_said(". no InfiniBand or RoCE card");
    check_said("? no interface to other hosts is up");
    check_said("! /dev/shm is not there");
}

TEST(gpus_and_libraries_that_do_not_fit)
{
    healthy();
    host.apart = true;
    host.driver = 12040;
    fake.version_is = 20805;
    CHECK_EQ(check_host(dir, nothing_set), 2);
    check_said("? GPU 0 and GPU 1 do not reach each other's memory");
    check_said("! the driver is too old for this runtime: install one for CUDA 13.0");
    check_said("! that NCCL is too old");
    healthy();
    host.gpus = 0;
    fake.version_is = NCCL_VERSION_CODE - 100;
    CHECK_EQ(check_host(dir, nothing_set), 1);
    check_said("! no GPU that CUDA can use: a CUDA error");
    check_said("? the NCCL that is loaded is older");
}

struct row {
    const char *env[4];
    int problems;
    const char *says;
};

/* clang-format off */
static const struct row rows[] = {
    {{"NCCL_DEBUG=INFO"}, 0, ". NCCL_DEBUG=INFO is set: how much NCCL says"},
    {{"NCCL_DEBUGG=INFO"}, 0, "? NCCL_DEBUGG=INFO is set: not known to dtrun"},
    {{"NCCL_DEBU=1"}, 0, "? NCCL_DEBU=1 is set: not known to dtrun"},
    {{"NCCL_SOCKET_IFNAME=eth0"}, 0, ". NCCL_SOCKET_IFNAME=eth0 is set"},
    {{"NCCL_SOCKET_IFNAME=ib,eth"}, 0, ". NCCL_SOCKET_IFNAME=ib,eth is set"},
    {{"NCCL_SOCKET_IFNAME==eth"}, 1, "! NCCL_SOCKET_IFNAME==eth names no interface of this host"},
    {{"NCCL_SOCKET_IFNAME=ens3"}, 1, "! NCCL_SOCKET_IFNAME=ens3 names no interface of this host"},
    {{"NCCL_SOCKET_IFNAME=^ens3"}, 0, ". NCCL_SOCKET_IFNAME=^ens3 is set"},
    {{"NCCL_SOCKET_IFNAME=lo", "WORLD_SIZE=4", "LOCAL_WORLD_SIZE=4"}, 0, ". NCCL_SOCKET_IFNAME=lo is set"},
    {{"NCCL_SOCKET_IFNAME=lo", "WORLD_SIZE=8", "LOCAL_WORLD_SIZE=4"}, 1, "! NCCL_SOCKET_IFNAME=lo, but the 8 ranks are not all on this host"},
    {{"NCCL_IB_HCA==mlx5_0:1"}, 0, ". NCCL_IB_HCA==mlx5_0:1 is set"},
    {{"NCCL_IB_HCA=mlx4"}, 1, "! NCCL_IB_HCA=mlx4 names no card of this host"},
    {{"NCCL_P2P_DISABLE=1"}, 0, ". NCCL_P2P_DISABLE=1 is set"},
    {{"NCCL_P2P_DISABLE=1", "NCCL_SHM_DISABLE=1"}, 1, "! NCCL_P2P_DISABLE=1 and NCCL_SHM_DISABLE=1"},
    {{"NCCL_IB_DISABLE=1"}, 0, "? NCCL_IB_DISABLE=1: the InfiniBand or RoCE cards"},
    {{"NCCL_IB_DISABLE=1", "NCCL_IB_HCA=mlx5"}, 1, "! NCCL_IB_HCA chooses cards, but NCCL_IB_DISABLE=1"},
    {{"NCCL_NET=ib", "NCCL_IB_DISABLE=1"}, 1, "! NCCL_NET=IB, but NCCL_IB_DISABLE=1"},
    {{"NCCL_COMM_BLOCKING=1"}, 0, "? NCCL_COMM_BLOCKING=1: a rank that is stuck"},
    {{"CUDA_LAUNCH_BLOCKING=1"}, 0, "? CUDA_LAUNCH_BLOCKING=1"},
};
/* clang-format on */

TEST(variables_are_explained_and_do_not_contradict)
{
    put(dir, "etc/nccl.conf", "NCCL_DEBUG=INFO\n");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("%s", rows[i].env[0]);
        healthy();
        CHECK_EQ(check_host(dir, rows[i].env), rows[i].problems);
        check_said(rows[i].says);
        check_said("? /etc/nccl.conf sets variables too");
    }
}
