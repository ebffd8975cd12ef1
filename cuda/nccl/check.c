/* SPDX-License-Identifier: Apache-2.0 */
/* Libraries, driver and devices: what is there, in the words of CUDA and NCCL. */
#include "cuda/nccl/check.h"

#include "cuda/device/device.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

void dt_check_say(struct dt_check *c, enum dt_check_level level, const char *fmt, ...)
{
    char line[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    c->problems += level == DT_CHECK_PROBLEM;
    c->say(c->arg, level, line);
}

/* -- libraries -------------------------------------------------------------------------------- */

static void check_calls(struct dt_check *c, int version)
{
    struct {
        const char *what;
        bool there;
    } newer[] = {{"split groups (2.18)", c->calls->split},
                 {"registered buffers of any memory (2.25)",
                  c->calls->reg && c->calls->unreg && version >= DT_NCCL_REGISTERS_WELL},
                 {"all-to-all (2.28)", c->calls->all_to_all}};
    for (size_t i = 0; i < sizeof newer / sizeof *newer; i++)
        if (!newer[i].there)
            dt_check_say(c, DT_CHECK_FINE, "this NCCL lacks %s: dtrun does without", newer[i].what);
}

static void check_nccl(struct dt_check *c)
{
    int v = 0, built = NCCL_VERSION_CODE;
    ncclResult_t r = c->calls->version(&v);
    if (r != ncclSuccess) {
        dt_check_say(c, DT_CHECK_PROBLEM, "NCCL does not tell its version: %s",
                     c->calls->result_text(r));
        return;
    }
    dt_check_say(c, DT_CHECK_FINE, "NCCL %d.%d.%d is loaded; built with %d.%d.%d", v / 10000,
                 v / 100 % 100, v % 100, built / 10000, built / 100 % 100, built % 100);
    if (v < DT_NCCL_OLDEST)
        dt_check_say(c, DT_CHECK_PROBLEM, "that NCCL is too old: 2.19 or newer is needed");
    else if (v / 100 < built / 100)
        dt_check_say(c, DT_CHECK_ADVICE,
                     "the NCCL that is loaded is older than the one dtrun was built with: is it "
                     "the one you mean (LD_LIBRARY_PATH)?");
    check_calls(c, v);
}

/* Whether there is a driver to ask further. */
static bool check_driver(struct dt_check *c)
{
    int driver = 0, runtime = 0;
    if (c->calls->driver_version(&driver) != cudaSuccess || driver == 0) {
        dt_check_say(c, DT_CHECK_PROBLEM,
                     "no NVIDIA driver: libcuda.so.1 is not there; in a container, start it with "
                     "--gpus all or the like");
        return false;
    }
    c->calls->runtime_version(&runtime);
    dt_check_say(c, DT_CHECK_FINE, "the driver is for CUDA %d.%d, the runtime is CUDA %d.%d",
                 driver / 1000, driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10);
    if (driver / 1000 < runtime / 1000)
        dt_check_say(c, DT_CHECK_PROBLEM,
                     "the driver is too old for this runtime: install one for CUDA %d.0 or newer",
                     runtime / 1000);
    return true;
}

/* -- devices ---------------------------------------------------------------------------------- */

static void check_device(struct dt_check *c, int i)
{
    struct cudaDeviceProp p;
    cudaError_t e = c->calls->properties(&p, i);
    if (e != cudaSuccess) {
        dt_check_say(c, DT_CHECK_PROBLEM, "GPU %d: %s", i, c->calls->cuda_text(e));
        return;
    }
    dt_check_say(c, DT_CHECK_FINE,
                 "GPU %d: %.100s, %.1f GiB, compute capability %d.%d, PCI %04x:%02x:%02x", i,
                 p.name, (double)p.totalGlobalMem / (1 << 30), p.major, p.minor,
                 (unsigned)p.pciDomainID, (unsigned)p.pciBusID, (unsigned)p.pciDeviceID);
}

static bool reach(const struct dt_check *c, int a, int b)
{
    int can = 0;
    return c->calls->can_access(&can, a, b) == cudaSuccess && can;
}

static void check_ways(struct dt_check *c, int n)
{
    int apart = 0;
    for (int a = 0; a < n; a++)
        for (int b = a + 1; b < n; b++)
            if (!reach(c, a, b) || !reach(c, b, a)) {
                apart++;
                dt_check_say(c, DT_CHECK_ADVICE,
                             "GPU %d and GPU %d do not reach each other's memory, says CUDA: what "
                             "goes between them takes the way through the host's",
                             a, b);
            }
    if (apart == 0 && n > 1)
        dt_check_say(c, DT_CHECK_FINE,
                     "all %d GPUs reach each other's memory, says CUDA; whether by NVLink or PCIe "
                     "it does not say (nvidia-smi topo -m does)",
                     n);
}

static void check_devices(struct dt_check *c)
{
    int n = 0;
    cudaError_t e = c->calls->devices(&n);
    if (e != cudaSuccess || n == 0) {
        dt_check_say(c, DT_CHECK_PROBLEM, "no GPU that CUDA can use: %s",
                     e == cudaSuccess ? "there is none" : c->calls->cuda_text(e));
        return;
    }
    for (int i = 0; i < n; i++)
        check_device(c, i);
    check_ways(c, n);
}

/* -- all -------------------------------------------------------------------------------------- */

int dt_check_all(struct dt_check *c)
{
    c->problems = 0;
    check_nccl(c);
    if (check_driver(c))
        check_devices(c);
    dt_check_host(c);
    dt_check_env(c);
    return c->problems;
}

int dt_cuda_check_nccl(dt_check_line_fn say, void *arg)
{
    struct dt_check c = {.calls = dt_nccl_linked(),
                         .root = "",
                         .env = (const char *const *)environ,
                         .say = say,
                         .arg = arg};
    return dt_check_all(&c);
}
