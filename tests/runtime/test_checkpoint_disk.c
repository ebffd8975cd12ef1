/* SPDX-License-Identifier: Apache-2.0 */
/* A disk that is full, as a tmpfs of a few pages. */
#include "tests/runtime/checkpoints.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>

static void mount_small(void)
{
    bool apart = unshare(CLONE_NEWNS) == 0 || unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0;
    if (!apart || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
        mount("dt-test", dir, "tmpfs", 0, "size=256k") < 0)
        SKIP("cannot mount a small tmpfs: %s", strerror(errno));
}

static void unmount(void)
{
    umount2(dir, MNT_DETACH);
}

BEFORE_ALL
{
    folder_make();
    mount_small();
    atexit(unmount);
}

/* Leaves LEFT bytes of the disk. */
static void fill_disk(off_t left)
{
    static char page[4096];
    int fd = open(at("filler"), O_WRONLY | O_CREAT, 0600);
    CHECK(fd >= 0);
    off_t n = 0;
    ssize_t w;
    while ((w = write(fd, page, sizeof page)) > 0)
        n += w;
    CHECK_EQ(errno, ENOSPC);
    CHECK_EQ(ftruncate(fd, n > left ? n - left : 0), 0);
    close(fd);
}

TEST(a_full_disk_costs_a_save_and_not_the_run)
{
    char path[PATH_MAX];
    struct world w;
    struct dt_err err;
    world_open(&w, at("c"), 2, (struct dt_ckpt_options){.model_type = DT_BF16});
    world_save(&w, 1);
    for (off_t left = 0; left <= 20 << 10; left += 4 << 10) {
        CHECK_ROW("%lld bytes left", (long long)left);
        fill_disk(left);
        world_start(&w, 2);
        CHECK_FAIL(world_finish(&w, &err), err, "No space left on device");
        CHECK_OK(dt_ckpt_find(at("c"), path, sizeof path, NULL, &err), err);
        CHECK_STR(strrchr(path, '/'), "/step-00000001");
        /* What was written is gone, so the next save meets the disk as it was. */
        world_close(&w);
        CHECK_EQ(entries(at("c"), ""), 2);
        world_open(&w, at("c"), 2, (struct dt_ckpt_options){.model_type = DT_BF16});
    }
    CHECK_EQ(unlink(at("filler")), 0);
    world_save(&w, 2);
    world_close(&w);
    CHECK_OK(read_all_ranks(at("c/step-00000002"), 3, 2, &err), err);
}
