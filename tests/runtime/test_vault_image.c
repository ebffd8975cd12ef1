/* SPDX-License-Identifier: Apache-2.0 */
/* An image is whole or counts for nothing, whatever its bytes are. */
#include "rendezvous/protocol/vault_fds.h"
#include "tests/lib/check.h"
#include "worker_runtime/vault/image.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>

#define WHOSE ((struct dt_vault_whose){77, 78})
#define SHARD 4096 /* floats; with STATE the body has three blocks of a small kind */
#define STATE 100

static int make_file(const char *name)
{
    char number[16];
    int fd = memfd_create("vault", MFD_ALLOW_SEALING);
    CHECK(fd > 2);
    snprintf(number, sizeof number, "%d", fd);
    setenv(name, number, 1);
    return fd;
}

static struct dt_vault_image open_image(void)
{
    struct dt_vault_image i;
    make_file(DT_VAULT_OWN_ENV);
    CHECK(dt_vault_image_open(&i, DT_VAULT_OWN_ENV, 0));
    return i;
}

static struct dt_vault_facts facts_of(int64_t epoch, int64_t step)
{
    return (struct dt_vault_facts){.whose = WHOSE,
                                   .epoch = epoch,
                                   .step = step,
                                   .world = 2,
                                   .rank = 1,
                                   .shard = SHARD,
                                   .state = STATE,
                                   .writer = getpid(),
                                   .safe_epoch = -1,
                                   .safe_step = -1};
}

/* All of the body is BYTE. */
static void put(struct dt_vault_image *i, int slot, const struct dt_vault_facts *f, int byte)
{
    CHECK_EQ(dt_vault_image_begin(i, slot, f, NULL), 0);
    struct dt_vault_slot *s = &i->slot[slot];
    memset(s->at + s->extent.body_at, byte, s->extent.body);
}

static void write_step(struct dt_vault_image *i, int slot, int64_t epoch, int64_t step)
{
    struct dt_vault_facts f = facts_of(epoch, step);
    put(i, slot, &f, (int)step);
    dt_vault_image_seal(i, slot);
}

static const char *look(struct dt_vault_image *i, int slot, struct dt_vault_whose whose)
{
    static struct dt_err why;
    struct dt_vault_facts f;
    return dt_vault_image_look(i, slot, whose, &f, &why) ? "whole" : why.text;
}

TEST(what_was_sealed_is_found_by_who_comes_later)
{
    struct dt_vault_image i = open_image(), later;
    struct dt_vault_facts f;
    struct dt_err why;
    CHECK_STR(look(&i, 0, WHOSE), "");
    write_step(&i, 0, 3, 7);
    write_step(&i, 1, 3, 8);
    dt_vault_image_close(&i);
    CHECK(dt_vault_image_open(&later, DT_VAULT_OWN_ENV, 0));
    for (int slot = 0; slot < DT_VAULT_SLOTS; slot++) {
        CHECK(dt_vault_image_look(&later, slot, WHOSE, &f, &why));
        CHECK_EQ(f.step, 7 + slot);
        CHECK_EQ(f.epoch, 3);
        CHECK_EQ(dt_vault_slot_state(&later.slot[slot])[STATE - 1], 7 + slot);
        CHECK_EQ(((uint8_t *)dt_vault_slot_array(&later.slot[slot], 2))[SHARD * 4 - 1], 7 + slot);
    }
    dt_vault_image_close(&later);
}

TEST(a_slot_that_is_being_written_counts_for_nothing_and_the_other_stays)
{
    struct dt_vault_image i = open_image();
    struct dt_vault_facts f = facts_of(0, 2);
    write_step(&i, 0, 0, 0);
    write_step(&i, 1, 0, 1);
    put(&i, 0, &f, 2);
    CHECK_STR(look(&i, 0, WHOSE), "");
    CHECK_STR(look(&i, 1, WHOSE), "whole");
    dt_vault_image_close(&i);
}

TEST(no_byte_can_change_unnoticed)
{
    struct dt_vault_image i = open_image();
    write_step(&i, 0, 0, 5);
    size_t all = i.slot[0].extent.all, told = offsetof(struct dt_vault_header, told);
    uint8_t *at = i.slot[0].at;
    for (size_t n = 0; n < all; n += n < 256 ? 1 : 997) {
        if (n >= told && n < i.slot[0].extent.sums_at + sizeof(uint64_t))
            n = i.slot[0].extent.body_at; /* what was told, and padding */
        CHECK_ROW("byte %zu", n);
        at[n] ^= 0x10;
        CHECK(strcmp(look(&i, 0, WHOSE), "whole") != 0);
        if (!i.slot[0].at) /* who found damage lets go of it */
            CHECK((at = mmap(NULL, all, PROT_READ | PROT_WRITE, MAP_SHARED, i.fd, 0)) !=
                  MAP_FAILED);
        at[n] ^= 0x10;
        CHECK_STR(look(&i, 0, WHOSE), "whole");
        at = i.slot[0].at;
    }
    dt_vault_image_close(&i);
}

TEST(another_job_or_mesh_and_a_file_that_was_cut_are_told)
{
    struct dt_vault_image i = open_image(), later;
    write_step(&i, 0, 0, 5);
    size_t all = i.slot[0].extent.all;
    CHECK_STR(look(&i, 0, (struct dt_vault_whose){76, 78}), "it is of another job or model");
    CHECK_STR(look(&i, 0, (struct dt_vault_whose){77, 0}), "it is of another mesh");
    dt_vault_image_close(&i);
    for (size_t left = all - 1; left > 0; left /= 2) {
        CHECK_ROW("%zu bytes", left);
        CHECK(dt_vault_image_open(&later, DT_VAULT_OWN_ENV, 0));
        CHECK_EQ(ftruncate(later.fd, (off_t)left), 0);
        CHECK_STR(look(&later, 0, WHOSE),
                  left >= sizeof(struct dt_vault_header) ? "it is cut off" : "");
        dt_vault_image_close(&later);
    }
}

TEST(facts_that_cannot_be_are_refused)
{
    struct dt_vault_extent e;
    struct dt_vault_facts good = facts_of(0, 1);
    static const struct {
        const char *name;
        size_t at;
        int64_t value;
    } rows[] = {
        {"no world", offsetof(struct dt_vault_facts, world), 0},
        {"a world of too many", offsetof(struct dt_vault_facts, world), DT_VAULT_WORLD_MAX + 1},
        {"a rank beyond", offsetof(struct dt_vault_facts, rank), 2},
        {"a negative rank", offsetof(struct dt_vault_facts, rank), -1},
        {"a negative step", offsetof(struct dt_vault_facts, step), -1},
        {"a negative epoch", offsetof(struct dt_vault_facts, epoch), -1},
        {"a shard too large", offsetof(struct dt_vault_facts, shard), INT64_MAX / 2},
        {"a negative shard", offsetof(struct dt_vault_facts, shard), -1},
        {"no state", offsetof(struct dt_vault_facts, state), 0},
        {"a state too large", offsetof(struct dt_vault_facts, state), DT_VAULT_STATE_MAX + 1},
    };
    CHECK_EQ(dt_vault_extent(&good, &e), 0);
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        CHECK_ROW("%s", rows[r].name);
        struct dt_vault_facts f = good;
        memcpy((char *)&f + rows[r].at, &rows[r].value, sizeof rows[r].value);
        CHECK_EQ(dt_vault_extent(&f, &e), -1);
    }
}

TEST(the_step_that_is_safe_is_not_overwritten)
{
    static const struct {
        const char *name;
        int64_t epoch[2], step[2]; /* of the slots; step -1: empty */
        int64_t safe_epoch, safe_step;
        int wanted;
    } rows[] = {
        {"both empty", {0, 0}, {-1, -1}, -1, -1, 0},
        {"one empty", {0, 0}, {4, -1}, -1, -1, 1},
        {"the newer one is safe", {0, 0}, {4, 5}, 0, 5, 0},
        {"the older one is safe", {0, 0}, {4, 5}, 0, 4, 1},
        {"a later world went on from the older step", {1, 0}, {5, 4}, 0, 4, 0},
        {"none is safe: the older step", {0, 0}, {5, 4}, -1, -1, 1},
        {"none is safe: the older world", {1, 0}, {3, 9}, -1, -1, 1},
    };
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        CHECK_ROW("%s", rows[r].name);
        struct dt_vault_image i = open_image();
        for (int n = 0; n < 2; n++)
            if (rows[r].step[n] >= 0)
                write_step(&i, n, rows[r].epoch[n], rows[r].step[n]);
        struct dt_vault_facts f = facts_of(2, 20);
        f.safe_epoch = rows[r].safe_epoch;
        f.safe_step = rows[r].safe_step;
        CHECK_EQ(dt_vault_image_room(&i, &f), rows[r].wanted);
        dt_vault_image_close(&i);
    }
}

TEST(a_copy_is_sealed_when_it_is_the_same)
{
    struct dt_vault_image i = open_image(), copy;
    make_file(DT_VAULT_PEER_ENV);
    CHECK(dt_vault_image_open(&copy, DT_VAULT_PEER_ENV, 0));
    write_step(&i, 0, 0, 5);
    const struct dt_vault_slot *from = &i.slot[0];
    struct dt_vault_facts f = dt_vault_slot_header(from)->facts;
    uint64_t seal = dt_vault_image_sealed(&i, 0);
    for (int torn = 0; torn < 2; torn++) {
        CHECK_EQ(dt_vault_image_begin(&copy, 1, &f, NULL), 0);
        uint64_t at = from->extent.sums_at;
        memcpy(copy.slot[1].at + at, from->at + at, from->extent.all - at);
        copy.slot[1].at[from->extent.all - 1] ^= torn;
        CHECK_EQ(dt_vault_image_seal_copy(&copy, 1, seal, NULL), -torn);
        CHECK_STR(look(&copy, 1, WHOSE), torn ? "" : "whole");
    }
    dt_vault_image_close(&i);
    dt_vault_image_close(&copy);
}

TEST(images_of_one_file_do_not_touch_each_other)
{
    struct dt_vault_image i[3];
    make_file(DT_VAULT_PEER_ENV);
    for (int n = 0; n < 3; n++)
        CHECK(dt_vault_image_open(&i[n], DT_VAULT_PEER_ENV, n));
    for (int n = 2; n >= 0; n--)
        for (int slot = 0; slot < DT_VAULT_SLOTS; slot++)
            write_step(&i[n], slot, n, 10 + slot);
    dt_vault_image_empty(&i[1], 0);
    for (int n = 0; n < 3; n++)
        for (int slot = 0; slot < DT_VAULT_SLOTS; slot++) {
            struct dt_vault_facts f = {.epoch = -1};
            bool emptied = n == 1 && slot == 0;
            CHECK_ROW("image %d, slot %d", n, slot);
            CHECK_STR(look(&i[n], slot, WHOSE), emptied ? "" : "whole");
            CHECK_EQ(dt_vault_image_facts(&i[n], slot, &f), !emptied);
            CHECK_EQ(f.epoch, emptied ? -1 : n);
        }
    for (int n = 0; n < 3; n++)
        dt_vault_image_close(&i[n]);
}

TEST(a_smaller_step_gives_memory_back)
{
    struct dt_vault_image i = open_image();
    struct dt_vault_facts f = facts_of(0, 1);
    struct stat large, small, none;
    f.shard = 1 << 20;
    put(&i, 1, &f, 1);
    fstat(i.fd, &large);
    f.shard = 1 << 10;
    put(&i, 1, &f, 1);
    dt_vault_image_seal(&i, 1);
    fstat(i.fd, &small);
    CHECK(small.st_blocks < large.st_blocks / 8);
    dt_vault_image_empty(&i, 1);
    fstat(i.fd, &none);
    CHECK_EQ(none.st_blocks, 0);
    CHECK_STR(look(&i, 1, WHOSE), "");
    dt_vault_image_close(&i);
}

/* In a process of its own: the limit stays. */
TEST(a_limit_of_files_sizes_is_an_error_and_no_signal)
{
    struct dt_vault_image i = open_image();
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        struct dt_vault_facts f = facts_of(0, 1);
        struct dt_err err = {0};
        setrlimit(RLIMIT_FSIZE, &(struct rlimit){1 << 20, 1 << 20});
        int rc = dt_vault_image_begin(&i, 1, &f, &err);
        _exit(rc == -1 && strstr(err.text, "ulimit -f") ? 0 : 1);
    }
    int status;
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    CHECK_EQ(status, 0);
    dt_vault_image_close(&i);
}

TEST(a_number_that_is_left_over_names_no_vault)
{
    struct dt_vault_image i;
    char number[16];
    int file = open("/dev/null", O_RDWR);
    snprintf(number, sizeof number, "%d", file);
    const char *const wrong[] = {number, "", "x", "1", "-4", "99999", NULL};
    for (size_t n = 0; n < sizeof wrong / sizeof *wrong; n++) {
        CHECK_ROW("%s", wrong[n] ? wrong[n] : "none");
        if (wrong[n])
            setenv(DT_VAULT_OWN_ENV, wrong[n], 1);
        else
            unsetenv(DT_VAULT_OWN_ENV);
        CHECK(!dt_vault_image_open(&i, DT_VAULT_OWN_ENV, 0));
    }
    close(file);
}
