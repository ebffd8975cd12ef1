/* SPDX-License-Identifier: Apache-2.0 */
/* Variables: each NCCL_* that is set is said with what it does, and then what does not go together
 * with another, with this host, or with how dtrun uses NCCL. */
#include "cuda/nccl/check.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct variable {
    const char *name, *does;
};

/* clang-format off */
static const struct variable variables[] = {
    {"NCCL_ALGO", "which algorithms may be used (Ring, Tree, NVLS, ...); must be the same on all ranks"},
    {"NCCL_BUFFSIZE", "bytes of the buffer between two GPUs"},
    {"NCCL_CHECKS_DISABLE", "1 leaves out checks of arguments"},
    {"NCCL_CHECK_POINTERS", "1 checks that buffers are the GPU's"},
    {"NCCL_COLLNET_ENABLE", "1 lets switches take sums (SHARP)"},
    {"NCCL_COMM_BLOCKING", "1 makes every call wait, 0 none"},
    {"NCCL_COMM_ID", "address of rank 0 in place of the one it chooses"},
    {"NCCL_CONF_FILE", "file that more variables are read from"},
    {"NCCL_CROSS_NIC", "whether a ring may use different cards on different hosts"},
    {"NCCL_CUMEM_ENABLE", "1 takes memory by the cuMem calls, which NVLS and fast registration need"},
    {"NCCL_CUMEM_HOST_ENABLE", "1 takes memory of the host by the cuMem calls in place of /dev/shm"},
    {"NCCL_CTA_POLICY", "how freely thread blocks are taken: 0, 1 sparingly, 2 none where copy engines will do"},
    {"NCCL_DEBUG", "how much NCCL says: VERSION, WARN, INFO, TRACE"},
    {"NCCL_DEBUG_FILE", "file for what NCCL says; %h is the host, %p the process"},
    {"NCCL_DEBUG_SUBSYS", "what NCCL_DEBUG=INFO speaks of: INIT, NET, COLL, ..."},
    {"NCCL_DMABUF_ENABLE", "0 keeps cards from reaching GPU memory by DMA-BUF"},
    {"NCCL_GRAPH_FILE", "file with the rings and trees to use"},
    {"NCCL_HOSTID", "name by which ranks know that they share a host"},
    {"NCCL_IB_ADDR_FAMILY", "addresses of RoCE: AF_INET or AF_INET6"},
    {"NCCL_IB_CUDA_SUPPORT", "old name of NCCL_NET_GDR_LEVEL"},
    {"NCCL_IB_DISABLE", "1 keeps NCCL from using InfiniBand and RoCE"},
    {"NCCL_IB_GID_INDEX", "which address of a RoCE port is used"},
    {"NCCL_IB_HCA", "which InfiniBand or RoCE cards are used"},
    {"NCCL_IB_MERGE_NICS", "whether the ports of a card are used as one"},
    {"NCCL_IB_PCI_RELAXED_ORDERING", "whether cards may write to memory in any order"},
    {"NCCL_IB_QPS_PER_CONNECTION", "connections of a card between two ranks"},
    {"NCCL_IB_RETRY_CNT", "how often InfiniBand tries again"},
    {"NCCL_IB_SL", "service level of InfiniBand"},
    {"NCCL_IB_TC", "traffic class of InfiniBand and RoCE"},
    {"NCCL_IB_TIMEOUT", "how long InfiniBand waits before it tries again: 4.096 us times 2 to this"},
    {"NCCL_IGNORE_CPU_AFFINITY", "1 lets NCCL's threads run on other processors than the program's"},
    {"NCCL_LAUNCH_MODE", "PARALLEL or GROUP: who starts kernels of several GPUs in a process"},
    {"NCCL_LOCAL_REGISTER", "0 keeps buffers from being registered"},
    {"NCCL_MAX_CTAS", "most thread blocks, and so multiprocessors, that a collective takes"},
    {"NCCL_MAX_NCHANNELS", "most channels, and so multiprocessors, that collectives take"},
    {"NCCL_MIN_CTAS", "fewest thread blocks that a collective takes"},
    {"NCCL_MIN_NCHANNELS", "fewest channels that collectives take"},
    {"NCCL_MNNVL_ENABLE", "whether NVLink between hosts is used"},
    {"NCCL_NET", "which network is used: Socket, IB, or a plugin's"},
    {"NCCL_NET_GDR_LEVEL", "how far apart card and GPU may be to talk directly"},
    {"NCCL_NET_GDR_READ", "whether cards also read GPU memory directly"},
    {"NCCL_NET_PLUGIN", "library of a network that NCCL does not bring"},
    {"NCCL_NSOCKS_PERTHREAD", "sockets of each thread between two hosts"},
    {"NCCL_NTHREADS", "threads of a block that takes part in a collective"},
    {"NCCL_NVLS_ENABLE", "whether NVSwitch takes sums (NVLink SHARP)"},
    {"NCCL_OOB_NET_ENABLE", "whether ranks find each other by a network plugin"},
    {"NCCL_P2P_DISABLE", "1 keeps GPUs from reaching each other's memory"},
    {"NCCL_P2P_LEVEL", "how far apart GPUs may be to reach each other's memory"},
    {"NCCL_P2P_NET_CHUNKSIZE", "bytes sent at a time between hosts by sends and receives"},
    {"NCCL_PROTO", "which protocols may be used (LL, LL128, Simple); must be the same on all ranks"},
    {"NCCL_PXN_DISABLE", "1 keeps a GPU from using another's card"},
    {"NCCL_RAS_ENABLE", "0 leaves out the threads that ncclras asks about a job"},
    {"NCCL_SHM_DISABLE", "1 keeps GPUs of a host from going by /dev/shm"},
    {"NCCL_SOCKET_FAMILY", "AF_INET or AF_INET6"},
    {"NCCL_SOCKET_IFNAME", "which interfaces are used, for sockets and to find each other"},
    {"NCCL_SOCKET_NTHREADS", "threads of the host for each connection by sockets"},
    {"NCCL_TOPO_DUMP_FILE", "file that the layout of the host is written to"},
    {"NCCL_TOPO_FILE", "file with the layout of the host, in place of what NCCL finds"},
    {"NCCL_TUNER_PLUGIN", "library that chooses algorithms"},
    {"NCCL_WIN_ENABLE", "0 keeps symmetric memory from being used"},
};
/* clang-format on */

static const char *get(const struct dt_check *c, const char *name)
{
    size_t n = strlen(name);
    for (const char *const *e = c->env; *e; e++)
        if (strncmp(*e, name, n) == 0 && (*e)[n] == '=')
            return *e + n + 1;
    return NULL;
}

static bool is(const struct dt_check *c, const char *name, const char *value)
{
    const char *v = get(c, name);
    return v && strcasecmp(v, value) == 0;
}

static const struct variable *find(const char *name, size_t n)
{
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
        if (strlen(variables[i].name) == n && strncmp(variables[i].name, name, n) == 0)
            return &variables[i];
    return NULL;
}

static void say_what_is_set(struct dt_check *c)
{
    for (const char *const *e = c->env; *e; e++) {
        size_t n = strcspn(*e, "=");
        const struct variable *v = find(*e, n);
        if (strncmp(*e, "NCCL_", 5) == 0)
            dt_check_say(c, v ? DT_CHECK_FINE : DT_CHECK_ADVICE, "%.200s is set: %s", *e,
                         v ? v->does : "not known to dtrun; is it spelled right?");
    }
}

/* -- names that must be there ----------------------------------------------------------------- */

/* Whether LIST, as NCCL reads it ("eth0,ib", "=eth0"; a port may stand behind a card), takes NAME.
 */
static bool takes(const char *list, const char *name)
{
    bool exact = *list == '=';
    list += exact;
    while (*list) {
        size_t n = strcspn(list, ","), bare = strcspn(list, ",:");
        bool same = exact ? strlen(name) == bare : strlen(name) >= bare;
        if (bare > 0 && same && strncmp(list, name, bare) == 0)
            return true;
        list += n + (list[n] == ',');
    }
    return false;
}

static void check_names(struct dt_check *c, const char *variable, const char *folder,
                        const char *what)
{
    const char *list = get(c, variable);
    struct dt_check_names all;
    bool found = false;
    if (!list || !*list || *list == '^') /* '^': all but these */
        return;
    dt_check_list(c, folder, &all);
    for (int i = 0; i < all.count && !found; i++)
        found = takes(list, all.name[i]);
    dt_check_free(&all);
    if (!found)
        dt_check_say(c, DT_CHECK_PROBLEM, "%s=%.100s names no %s of this host (%s lists them)",
                     variable, list, what, folder);
}

/* -- what does not go together ---------------------------------------------------------------- */

static void check_ways_inside(struct dt_check *c)
{
    if (is(c, "NCCL_P2P_DISABLE", "1") && is(c, "NCCL_SHM_DISABLE", "1"))
        dt_check_say(c, DT_CHECK_PROBLEM,
                     "NCCL_P2P_DISABLE=1 and NCCL_SHM_DISABLE=1 leave GPUs of one host only the "
                     "network: unset one of them");
}

static void check_ways_outside(struct dt_check *c)
{
    struct dt_check_names cards;
    dt_check_list(c, "/sys/class/infiniband", &cards);
    bool off = is(c, "NCCL_IB_DISABLE", "1");
    if (is(c, "NCCL_NET", "IB") && (off || cards.count == 0))
        dt_check_say(c, DT_CHECK_PROBLEM, "NCCL_NET=IB, but %s",
                     off ? "NCCL_IB_DISABLE=1" : "this host has no InfiniBand or RoCE card");
    if (off && get(c, "NCCL_IB_HCA"))
        dt_check_say(c, DT_CHECK_PROBLEM,
                     "NCCL_IB_HCA chooses cards, but NCCL_IB_DISABLE=1: unset one of them");
    else if (off && cards.count > 0)
        dt_check_say(c, DT_CHECK_ADVICE,
                     "NCCL_IB_DISABLE=1: the InfiniBand or RoCE cards of this host are not used");
    dt_check_free(&cards);
}

static void check_loopback(struct dt_check *c)
{
    const char *world = get(c, "WORLD_SIZE"), *local = get(c, "LOCAL_WORLD_SIZE");
    const char *name = get(c, "NCCL_SOCKET_IFNAME");
    bool lo = name && (strcmp(name, "lo") == 0 || strcmp(name, "=lo") == 0);
    if (lo && world && local && strtol(world, NULL, 10) > strtol(local, NULL, 10))
        dt_check_say(c, DT_CHECK_PROBLEM,
                     "NCCL_SOCKET_IFNAME=%s, but the %s ranks are not all on this host", name,
                     world);
}

static void check_blocking(struct dt_check *c)
{
    if (is(c, "NCCL_COMM_BLOCKING", "1"))
        dt_check_say(c, DT_CHECK_ADVICE,
                     "NCCL_COMM_BLOCKING=1: a rank that is stuck in NCCL for a lost one cannot be "
                     "brought back for the next world, and ends; no GPU has shown yet what that "
                     "gains");
    if (is(c, "CUDA_LAUNCH_BLOCKING", "1"))
        dt_check_say(c, DT_CHECK_ADVICE,
                     "CUDA_LAUNCH_BLOCKING=1: each kernel is waited for, so that nothing "
                     "overlaps; for finding faults only");
}

static void check_file(struct dt_check *c)
{
    char line[8];
    dt_check_read(c, "/etc/nccl.conf", line, sizeof line);
    if (*line)
        dt_check_say(c, DT_CHECK_ADVICE,
                     "/etc/nccl.conf sets variables too: NCCL reads it, and this check does not");
}

void dt_check_env(struct dt_check *c)
{
    say_what_is_set(c);
    check_file(c);
    check_names(c, "NCCL_SOCKET_IFNAME", "/sys/class/net", "interface");
    check_names(c, "NCCL_IB_HCA", "/sys/class/infiniband", "card");
    check_ways_inside(c);
    check_ways_outside(c);
    check_loopback(c);
    check_blocking(c);
}
