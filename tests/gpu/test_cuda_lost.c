/* SPDX-License-Identifier: Apache-2.0 */
/* A device whose peers are gone. The plugin is in this program, since what tells a device so, the
 * watchdog of a communicator, stands behind no seam. */
#include "cuda/device/device.h"
#include "tests/lib/check.h"
#include "worker_runtime/device/device.h"

static struct dt_device *open_device(void)
{
    struct dt_err err = {0};
    struct dt_device_wish w = {.kind = "cuda", .local_world = 1};
    struct dt_device *d = dt_cuda_device_open(&w, &err);
    CHECK_OK(d ? 0 : -1, err);
    return d;
}

static void *lose(void *device)
{
    struct dt_err why;
    dt_err_set(&why, DT_E_DISCONNECTED, "rank 3 is gone");
    dt_cuda_device_lose(device, &why);
    dt_err_set(&why, DT_E_TIMEOUT, "nobody answers");
    dt_cuda_device_lose(device, &why);
    return NULL;
}

TEST(the_first_reason_is_what_waiting_for_a_lost_device_says)
{
    struct dt_err err = {0};
    struct dt_device *d = open_device();
    pthread_t watchdog;
    CHECK_OK(d->table->sync(d, &err), err);
    CHECK_EQ(pthread_create(&watchdog, NULL, lose, d), 0);
    CHECK_EQ(pthread_join(watchdog, NULL), 0);
    CHECK_FAIL(d->table->sync(d, &err), err, "rank 3 is gone");
    CHECK_EQ(err.code, DT_E_DISCONNECTED);
    d->table->close(d);
}

TEST(a_reason_wins_over_what_failed_because_of_it)
{
    static char host[1 << 20];
    struct dt_err err = {0};
    struct dt_device *d = open_device();
    d->table->from_host(d, NULL, host, sizeof host);
    CHECK_FAIL(d->table->sync(d, &err), err, "a copy to the GPU: CUDA says");
    lose(d);
    CHECK_FAIL(d->table->sync(d, &err), err, "rank 3 is gone");
    d->table->close(d);
}
