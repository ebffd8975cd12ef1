/* SPDX-License-Identifier: Apache-2.0 */
/* The mock GPU itself: it computes what a GPU would, and catches what a GPU would let pass. */
#include <math.h>
#include <signal.h>
#include <sys/wait.h>

#include "tests/gpu/emulator/samples.h"
#include "tests/lib/check.h"

static const char *const seeds[] = {"0", "1", "2", "3", "4"};
enum { SEEDS = sizeof seeds / sizeof seeds[0] };

static void *device(size_t bytes)
{
    void *at = NULL;
    CHECK_EQ(cudaMalloc(&at, bytes), cudaSuccess);
    return at;
}

static void *upload(const void *from, size_t bytes)
{
    void *at = device(bytes);
    CHECK_EQ(cudaMemcpy(at, from, bytes, cudaMemcpyHostToDevice), cudaSuccess);
    return at;
}

static void download(void *to, void *at, size_t bytes)
{
    CHECK_EQ(cudaMemcpy(to, at, bytes, cudaMemcpyDeviceToHost), cudaSuccess);
    CHECK_EQ(cudaFree(at), cudaSuccess);
}

/* How a child ends that runs FN: its signal, with what it said in TEXT. */
static int signal_of(void (*fn)(void), char text[4096])
{
    int ends[2];
    CHECK_EQ(pipe(ends), 0);
    fflush(stdout);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        /* A sanitizer would turn the signal into a report and an exit status. */
        signal(SIGSEGV, SIG_DFL);
        fn();
        _exit(0);
    }
    close(ends[1]);
    size_t got = 0;
    ssize_t n;
    while (got < 4095 && (n = read(ends[0], text + got, 4095 - got)) > 0)
        got += (size_t)n;
    text[got] = '\0';
    close(ends[0]);
    int status;
    CHECK_EQ(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static void check_caught(void (*fn)(void), int signal, const char *words)
{
    char text[4096];
    CHECK_EQ(signal_of(fn, text), signal);
    CHECK_ROW("it said: %.150s", text);
    CHECK(strstr(text, words) != NULL);
}

TEST(elements_are_computed_each_by_its_thread)
{
    float x[1000], y[1000], out[1000];
    for (int i = 0; i < 1000; i++) {
        x[i] = (float)i;
        y[i] = (float)(i % 7);
    }
    float *dx = upload(x, sizeof x), *dy = upload(y, sizeof y), *to = device(sizeof out);
    CHECK_EQ(sample_axpy(1000, to, 2, dx, dy, NULL), cudaSuccess);
    download(out, to, sizeof out);
    for (int i = 0; i < 1000; i++)
        CHECK(out[i] == 2 * x[i] + y[i]);
    cudaFree(dx);
    cudaFree(dy);
}

/* How many of four blocks' sums are right. */
static int right_sums(bool by_warps, bool barrier)
{
    float x[1024], out[4];
    for (int i = 0; i < 1024; i++)
        x[i] = (float)(i % 100);
    float *dx = upload(x, sizeof x), *to = device(sizeof out);
    cudaError_t e =
        by_warps ? sample_warp_sums(4, to, dx, NULL) : sample_block_sums(4, to, dx, barrier, NULL);
    CHECK_EQ(e, cudaSuccess);
    download(out, to, sizeof out);
    cudaFree(dx);
    int right = 0;
    for (int b = 0; b < 4; b++) {
        float sum = 0;
        for (int i = 0; i < 256; i++)
            sum += x[b * 256 + i];
        right += out[b] == sum;
    }
    return right;
}

TEST(barriers_and_shuffles_bring_a_block_together_in_any_order_of_threads)
{
    for (int i = 0; i < SEEDS; i++) {
        CHECK_ROW("seed %s", seeds[i]);
        setenv("DT_EMULATOR_SEED", seeds[i], 1);
        CHECK_EQ(right_sums(false, true), 4);
        CHECK_EQ(right_sums(true, true), 4);
    }
    unsetenv("DT_EMULATOR_SEED");
}

#ifdef DT_EMULATOR_TELLS_RACES
static void sum_without_barrier(void)
{
    right_sums(false, false);
}

static void exchange_by_shuffle(void)
{
    sample_lanes_exchange(device(32 * sizeof(float)), false, NULL);
}

TEST(a_missing_barrier_is_told_of_in_any_order_of_threads)
{
    for (int i = 0; i < SEEDS; i++) {
        CHECK_ROW("seed %s", seeds[i]);
        setenv("DT_EMULATOR_SEED", seeds[i], 1);
        check_caught(sum_without_barrier, SIGABRT, "kernel block_sums<false>, block (");
        check_caught(sum_without_barrier, SIGABRT, "no barrier is between");
        check_caught(exchange_by_shuffle, SIGABRT, "a race: it reads byte");
    }
    unsetenv("DT_EMULATOR_SEED");
}
#else
TEST(a_missing_barrier_shows)
{
    for (int i = 0; i < SEEDS; i++) {
        CHECK_ROW("seed %s", seeds[i]);
        setenv("DT_EMULATOR_SEED", seeds[i], 1);
        /* Descending is the one order in which each thread finds what it needs. */
        CHECK(right_sums(false, false) < 4 || strcmp(seeds[i], "1") == 0);
    }
    unsetenv("DT_EMULATOR_SEED");
}

#endif

TEST(a_barrier_of_a_warp_orders_what_its_lanes_share)
{
    float out[32], *to = device(sizeof out);
    CHECK_EQ(sample_lanes_exchange(to, true, NULL), cudaSuccess);
    download(out, to, sizeof out);
    for (int i = 0; i < 32; i++)
        CHECK(out[i] == (float)(31 - i));
}

TEST(shuffles_give_what_cuda_says)
{
    int up[64], down[64], at[64];
    unsigned odd[64];
    int *dup = device(sizeof up), *ddown = device(sizeof down), *dat = device(sizeof at);
    unsigned *dodd = device(sizeof odd);
    CHECK_EQ(sample_shuffles(dup, ddown, dat, dodd, NULL), cudaSuccess);
    download(up, dup, sizeof up);
    download(down, ddown, sizeof down);
    download(at, dat, sizeof at);
    download(odd, dodd, sizeof odd);
    for (int i = 0; i < 64; i++) {
        CHECK_ROW("thread %d", i);
        CHECK_EQ(up[i], i % 32 < 3 ? i : i - 3);
        CHECK_EQ(down[i], i % 16 + 5 < 16 ? i + 5 : i);
        CHECK_EQ(at[i], i / 8 * 8 + 1);
        CHECK_EQ(odd[i], 0xaaaaaaaau);
    }
}

static void some_do_not_come(void)
{
    sample_divergent_barrier(60, NULL);
}

static void two_barriers(void)
{
    sample_two_barriers(NULL);
}

static void lanes_do_not_come(void)
{
    sample_divergent_shuffle(31, NULL);
}

TEST(threads_that_wait_for_ever_are_told_of)
{
    check_caught(some_do_not_come, SIGABRT, "kernel divergent_barrier, block (0, 0, 0)");
    check_caught(some_do_not_come, SIGABRT, "thread (60, 0, 0) has returned");
    check_caught(some_do_not_come, SIGABRT, "thread (0, 0, 0) is at __syncthreads");
    check_caught(two_barriers, SIGABRT, "wait at different barriers");
    check_caught(lanes_do_not_come, SIGABRT, "is at __shfl_xor_sync");
}

/* As often as memory may be left open (DT_EMULATOR_LEAVES_OPEN) where the processor has no keys. */
enum { TOUCHES = 31 };

static void touch(void)
{
    for (int i = 0; i < TOUCHES; i++) {
        volatile float *at = device(64);
        *at = 1;
    }
}

static void touch_by_copy(void)
{
    for (int i = 0; i < TOUCHES; i++) {
        char *at = device(64);
        memcpy(at, "text", 4);
    }
}

static void read_behind_pages(void)
{
    float *x = device(4096);
    sample_read(x, x, 1024, NULL);
}

static void read_what_was_freed(void)
{
    float *x = device(4096), *out = device(4);
    cudaFree(x);
    sample_read(out, x, 0, NULL);
}

static void read_of_host(void)
{
    float here = 1, *out = device(4);
    sample_read(out, &here, 0, NULL);
}

TEST(memory_of_the_device_is_not_the_hosts)
{
    check_caught(touch, SIGSEGV, "");
    check_caught(touch_by_copy, SIGSEGV, "");
    check_caught(read_behind_pages, SIGSEGV, "");
    check_caught(read_what_was_freed, SIGSEGV, "");
    check_caught(read_of_host, SIGABRT, "kernel read: argument 2");
}

static float read16(size_t at)
{
    float x[8] = {0, 1, 2, 3, 4, 5, 6, 7}, out, *dx = upload(x, sizeof x), *to = device(sizeof out);
    CHECK_EQ(sample_read16(to, dx, at, NULL), cudaSuccess);
    download(&out, to, sizeof out);
    cudaFree(dx);
    return out;
}

#ifdef DT_EMULATOR_TELLS_ALIGNMENT /* else a sanitizer does */
static void read16_unaligned(void)
{
    read16(2);
}

TEST(sixteen_bytes_at_an_address_that_is_not_aligned_are_told_of)
{
    check_caught(read16_unaligned, SIGABRT, "kernel read16, block (0, 0, 0), thread (0, 0, 0)");
    check_caught(read16_unaligned, SIGABRT, "not aligned to 16 bytes");
}
#endif

TEST(sixteen_bytes_are_read_at_addresses_of_sixteen)
{
    CHECK(read16(4) == 7);
}

static void write_behind_the_end(void)
{
    float *x = device(100), *to = device(4), one = 1;
    cudaMemcpy(to, &one, 4, cudaMemcpyHostToDevice);
    sample_read(x + 25, to, 0, NULL);
    cudaFree(x);
}

static void write_behind_shared(void)
{
    sample_shared_overrun(64, NULL);
}

TEST(writes_behind_an_end_are_found)
{
    check_caught(write_behind_the_end, SIGABRT, "0 behind its end");
    check_caught(write_behind_shared, SIGABRT, "shared array of 256 bytes");
    CHECK_EQ(sample_shared_overrun(63, NULL), cudaSuccess);
}

TEST(shared_memory_is_nan_until_it_is_written_in_each_block)
{
    float out[2], *to = device(sizeof out);
    CHECK_EQ(sample_unwritten_shared(to, NULL), cudaSuccess);
    download(out, to, sizeof out);
    CHECK(isnan(out[0]));
    CHECK(isnan(out[1]));
}

/* Small whole numbers, which bfloat16 holds exactly. */
static uint16_t bfloat16(int i)
{
    float x = (float)i;
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return (uint16_t)(bits >> 16);
}

static void product(bool turned, bool valid, bool wait, float d[16][8], float wanted[16][8])
{
    uint16_t a[16][16], b[16 * 8];
    int ia[16][16], ib[16][8];
    for (int i = 0; i < 16; i++) {
        for (int k = 0; k < 16; k++) {
            ia[i][k] = (i * 5 + k * 3) % 17 - 8;
            a[i][k] = bfloat16(ia[i][k]);
        }
        for (int j = 0; j < 8; j++) {
            ib[i][j] = (i * 7 + j * 11) % 13 - 6;
            b[turned ? j * 16 + i : i * 8 + j] = bfloat16(ib[i][j]);
            d[i][j] = (float)(i + j);
        }
    }
    for (int i = 0; i < 16; i++)
        for (int j = 0; j < 8; j++) {
            wanted[i][j] = d[i][j];
            for (int k = 0; k < 16 && valid; k++)
                wanted[i][j] += (float)(ia[i][k] * ib[k][j]);
        }
    void *da = upload(a, sizeof a), *db = upload(b, sizeof b), *dd = upload(d, 16 * 8 * 4);
    CHECK_EQ(sample_product(dd, da, db, turned, valid, wait, NULL), cudaSuccess);
    download(d, dd, 16 * 8 * 4);
    cudaFree(da);
    cudaFree(db);
}

TEST(fragments_multiply_as_a_plain_matrix_product)
{
    float d[16][8], wanted[16][8];
    for (int how = 0; how < 4; how++) {
        CHECK_ROW("turned %d valid %d", how & 1, how >> 1);
        product(how & 1, how >> 1, true, d, wanted);
        CHECK_BYTES(d, sizeof d, wanted, sizeof wanted);
    }
}

TEST(an_asynchronous_copy_is_not_there_before_its_wait)
{
    float d[16][8], wanted[16][8];
    product(false, true, false, d, wanted);
    for (int i = 0; i < 16; i++)
        for (int j = 0; j < 8; j++)
            CHECK(isnan(d[i][j]));
}
