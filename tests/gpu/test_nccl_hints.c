/* SPDX-License-Identifier: Apache-2.0 */
/* What is said to a person about an error of NCCL's, by its result and its words. The words are
 * those of NCCL 2.28 and of the system below it. */
#include "cuda/nccl/hints.h"

#include "tests/gpu/fake_nccl.h"

struct row {
    ncclResult_t r;
    const char *text, *says;
};

/* clang-format off */
static const struct row rows[] = {
    {ncclSystemError, "Error while creating shared memory segment /dev/shm/nccl-a1b2c3 (size 9637888), error: No space left on device (28)", "--shm-size"},
    {ncclInvalidUsage, "Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 1b000", "two ranks use one GPU"},
    {ncclInvalidUsage, "Mismatched NCCL version detected : rank 0 version 22809 rank 1 version 22703", "different NCCL libraries"},
    {ncclInternalError, "NCCL version mismatch with remote peer 10.0.0.2<4000> (local: 22809, remote 22703)", "different NCCL libraries"},
    {ncclInvalidUsage, "Bootstrap : no socket interface found", "NCCL_SOCKET_IFNAME"},
    {ncclInvalidUsage, "Message truncated : received 1024 bytes instead of 256", "different collectives"},
    {ncclUnhandledCudaError, "Cuda failure 2 'out of memory'", "no memory left for NCCL"},
    {ncclUnhandledCudaError, "P2P not supported between GPU0 and GPU1", "NCCL_P2P_DISABLE=1"},
    {ncclSystemError, "Call to ibv_reg_mr failed with error Cannot allocate memory", "ulimit -l"},
    {ncclSystemError, "NET/IB : Got completion from peer with status=12", "NCCL_IB_HCA"},
    {ncclSystemError, "Call to ibv_modify_qp failed with error Invalid argument", "NCCL_IB_HCA"},
    {ncclUnhandledCudaError, "Cuda failure 209 'no kernel image is available for execution on the device'", "not built for this GPU"},
    {ncclSystemError, "Call to socket failed : Too many open files", "ulimit -n"},
    {ncclSystemError, "socketPollConnect: connect returned Connection refused", "firewall"},
    {ncclSystemError, "connect to 192.168.9.9 failed : No route to host", "they share"},
    {ncclRemoteError, "", "the first failure in the other ranks' logs"},
    {ncclRemoteError, NULL, "the first failure in the other ranks' logs"},
    {ncclSystemError, "something new", "NCCL_SOCKET_IFNAME"},
    {ncclUnhandledCudaError, "Cuda failure 700 'an illegal memory access was encountered'", "an earlier kernel"},
    {ncclInvalidUsage, "", "do not agree"},
    {ncclInvalidArgument, "", "a fault of dtrun"},
    {ncclInternalError, "", "NCCL itself"},
    {(ncclResult_t)99, "", "NCCL_DEBUG=INFO"},
};
/* clang-format on */

TEST(each_error_has_something_to_try)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("%d: %s", (int)rows[i].r, rows[i].text);
        const char *hint = dt_nccl_hint(rows[i].r, rows[i].text);
        struct dt_err as_err = {0};
        snprintf(as_err.text, sizeof as_err.text, "%s", hint);
        CHECK_FAIL(-1, as_err, rows[i].says);
    }
}

TEST(an_error_tells_the_call_the_result_the_first_line_and_the_hint)
{
    struct dt_err err = {0};
    fake_reset();
    fake.text = "Error while creating shared memory segment /dev/shm/nccl-x (size 4)\nmore";
    CHECK_EQ(dt_nccl_fail(fake_calls(), ncclSystemError, "making a communicator", &err), -1);
    CHECK_STR(
        err.text,
        "making a communicator: NCCL says \"unhandled system error\" (Error while creating "
        "shared memory segment /dev/shm/nccl-x (size 4)): /dev/shm is full or too small: give "
        "it more (docker: --shm-size=1g, Kubernetes: an emptyDir with medium Memory), or set "
        "NCCL_SHM_DISABLE=1");
    CHECK_EQ(err.code, DT_E_RUNTIME);
}

TEST(kinds_of_error_are_those_of_the_runtime)
{
    struct dt_err err = {0};
    fake_reset();
    dt_nccl_fail(fake_calls(), ncclRemoteError, "x", &err);
    CHECK_EQ(err.code, DT_E_DISCONNECTED);
    fake.text = "Cuda failure 'out of memory'";
    dt_nccl_fail(fake_calls(), ncclUnhandledCudaError, "x", &err);
    CHECK_EQ(err.code, DT_E_MEMORY);
}

TEST(the_longest_words_of_nccl_leave_room_for_the_hint)
{
    static char words[1024];
    struct dt_err err = {0};
    fake_reset();
    memset(words, 'w', sizeof words - 1);
    memcpy(words, "/dev/shm", 8);
    fake.text = words;
    dt_nccl_fail(fake_calls(), ncclUnhandledCudaError, "making a communicator", &err);
    CHECK_FAIL(-1, err, "NCCL_SHM_DISABLE=1");
}
