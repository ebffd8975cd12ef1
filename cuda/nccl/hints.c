/* SPDX-License-Identifier: Apache-2.0 */
/* Rows from the special to the general: a row counts when its result is the one at hand and its
 * words are in what NCCL said; the first that does is taken. */
#include "cuda/nccl/hints.h"

#include <stdio.h>
#include <string.h>

struct hint {
    int result;        /* ANY: whatever it is */
    const char *words; /* in NCCL's text, in small letters; NULL: whatever it says */
    const char *says;
};

enum { ANY = -1 };

/* clang-format off */
static const struct hint hints[] = {
    {ANY, "/dev/shm", "/dev/shm is full or too small: give it more (docker: --shm-size=1g, Kubernetes: an emptyDir with medium Memory), or set NCCL_SHM_DISABLE=1"},
    {ANY, "shared memory segment", "/dev/shm is full or too small: give it more (docker: --shm-size=1g, Kubernetes: an emptyDir with medium Memory), or set NCCL_SHM_DISABLE=1"},
    {ANY, "duplicate gpu", "two ranks use one GPU: start no more workers on a host than it has GPUs, and let --nproc-per-node and CUDA_VISIBLE_DEVICES agree"},
    {ANY, "version mismatch", "ranks have loaded different NCCL libraries: install one version on all hosts, and look at LD_LIBRARY_PATH"},
    {ANY, "mismatched nccl version", "ranks have loaded different NCCL libraries: install one version on all hosts, and look at LD_LIBRARY_PATH"},
    {ANY, "no socket interface", "NCCL found no network interface it may use: set NCCL_SOCKET_IFNAME to one that is up on all hosts (`ip link` lists them)"},
    {ANY, "truncated", "ranks called different collectives, or the same with different sizes: all ranks must run the same program with the same configuration, and the same NCCL_ALGO and NCCL_PROTO"},
    {ANY, "out of memory", "the GPU has no memory left for NCCL: lower the batch or the memory limit, or look for another process on the GPU (nvidia-smi)"},
    {ANY, "p2p", "GPUs of this host cannot reach each other directly: set NCCL_P2P_DISABLE=1 to see whether that is it, and look at IOMMU, ACS and virtual machine settings"},
    {ANY, "peer access", "GPUs of this host cannot reach each other directly: set NCCL_P2P_DISABLE=1 to see whether that is it, and look at IOMMU, ACS and virtual machine settings"},
    {ANY, "ibv_reg_mr", "memory could not be registered with the InfiniBand card: raise the limit of locked memory (ulimit -l unlimited)"},
    {ANY, "net/ib", "InfiniBand or RoCE fails between hosts: look at the ports (ibstat) and NCCL_IB_HCA, NCCL_IB_GID_INDEX; NCCL_IB_DISABLE=1 goes by sockets instead"},
    {ANY, "ibv_", "InfiniBand or RoCE fails between hosts: look at the ports (ibstat) and NCCL_IB_HCA, NCCL_IB_GID_INDEX; NCCL_IB_DISABLE=1 goes by sockets instead"},
    {ANY, "no kernel image", "this NCCL was not built for this GPU: install one that is"},
    {ANY, "too many open files", "the limit of open files is too low: raise it (ulimit -n 65536)"},
    {ANY, "connection refused", "the other side is not there: another rank has ended, a firewall stands between the hosts, or NCCL_SOCKET_IFNAME names an interface that the hosts do not share"},
    {ANY, "no route to host", "hosts cannot reach each other on the interface NCCL chose: set NCCL_SOCKET_IFNAME to one that they share"},
    {ANY, "timed out", "hosts cannot reach each other on the interface NCCL chose: set NCCL_SOCKET_IFNAME to one that they share, and look for a firewall"},
    {ncclRemoteError, NULL, "another rank ended or the network to it broke: the first failure in the other ranks' logs is the cause"},
    {ncclSystemError, NULL, "a call of the operating system failed, most often on a socket: look at the network (NCCL_SOCKET_IFNAME), /dev/shm and the limits, and run with NCCL_DEBUG=INFO"},
    {ncclUnhandledCudaError, NULL, "CUDA failed inside NCCL: an earlier kernel may have failed, or driver and GPU are not well (dmesg, nvidia-smi); run with NCCL_DEBUG=INFO"},
    {ncclInvalidUsage, NULL, "ranks do not agree about the group, or a GPU is used twice; run with NCCL_DEBUG=WARN for NCCL's own word"},
    {ncclInvalidArgument, NULL, "NCCL was given what it does not take, which is a fault of dtrun; run with NCCL_DEBUG=WARN and report what it says"},
    {ncclInternalError, NULL, "NCCL itself failed: run with NCCL_DEBUG=INFO, try another version of NCCL, and report it to its makers"},
    {ANY, NULL, "run with NCCL_DEBUG=INFO for more"},
};
/* clang-format on */

static void lower(char *out, size_t size, const char *text)
{
    size_t n = 0;
    for (; text && *text && n + 1 < size; text++)
        out[n++] = (char)(*text >= 'A' && *text <= 'Z' ? *text - 'A' + 'a' : *text);
    out[n] = '\0';
}

const char *dt_nccl_hint(ncclResult_t r, const char *text)
{
    char said[1024];
    lower(said, sizeof said, text);
    const struct hint *h = hints;
    while ((h->result != ANY && h->result != (int)r) || (h->words && !strstr(said, h->words)))
        h++;
    return h->says;
}

bool dt_nccl_is_remote(ncclResult_t r)
{
    return r == ncclRemoteError;
}

static enum dt_err_code code_of(ncclResult_t r, const char *text)
{
    char said[1024];
    lower(said, sizeof said, text);
    if (strstr(said, "out of memory"))
        return DT_E_MEMORY;
    return dt_nccl_is_remote(r) ? DT_E_DISCONNECTED : DT_E_RUNTIME;
}

/* The first line of what NCCL said last, without the line end. */
static void last_words(const struct dt_nccl_calls *calls, char *out, size_t size)
{
    const char *text = calls->last_error(NULL);
    snprintf(out, size, "%s", text ? text : "");
    out[strcspn(out, "\n")] = '\0';
}

int dt_nccl_fail(const struct dt_nccl_calls *calls, ncclResult_t r, const char *what,
                 struct dt_err *err)
{
    char said[161];
    last_words(calls, said, sizeof said);
    const char *name = calls->result_text(r), *rest = strstr(name, " (run with");
    int len = rest ? (int)(rest - name) : (int)strlen(name);
    return dt_err_set(err, code_of(r, said), "%s: NCCL says \"%.*s\"%s%s%s: %s", what, len, name,
                      *said ? " (" : "", said, *said ? ")" : "", dt_nccl_hint(r, said));
}
