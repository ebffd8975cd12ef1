/* SPDX-License-Identifier: Apache-2.0 */
/* The files in memory that outlive a worker. */
#include "agent/vaults.h"
#include "tests/lib/check.h"

#include <fcntl.h>
#include <sys/resource.h>

#define WORKERS 3

TEST(each_worker_has_two_empty_files_of_its_own)
{
    struct dt_vaults *v = dt_vaults_create(WORKERS);
    ino_t seen[2 * WORKERS];
    CHECK(v != NULL);
    for (int i = 0; i < 2 * WORKERS; i++) {
        int fd = i % 2 ? dt_vaults_peer(v, i / 2) : dt_vaults_own(v, i / 2);
        struct stat st;
        CHECK_EQ(fstat(fd, &st), 0);
        CHECK_EQ(st.st_size, 0);
        CHECK_EQ(fcntl(fd, F_GETFD), FD_CLOEXEC);
        seen[i] = st.st_ino;
        for (int k = 0; k < i; k++)
            CHECK(seen[k] != seen[i]);
    }
    int last = dt_vaults_peer(v, WORKERS - 1);
    dt_vaults_destroy(v);
    CHECK_EQ(fcntl(last, F_GETFD), -1);
}

TEST(without_files_to_spare_there_are_none)
{
    struct rlimit was, few;
    CHECK_EQ(getrlimit(RLIMIT_NOFILE, &was), 0);
    few = was;
    few.rlim_cur = 150;
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
    struct dt_vaults *v = dt_vaults_create(WORKERS);
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &was), 0);
    CHECK(v == NULL);
    CHECK_EQ(dt_vaults_own(v, 0), 0);
    CHECK_EQ(dt_vaults_peer(v, 0), 0);
    dt_vaults_destroy(v);
}
