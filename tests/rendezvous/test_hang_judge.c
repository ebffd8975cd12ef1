/* SPDX-License-Identifier: Apache-2.0 */
#include "rendezvous/hang/judge.h"
#include "tests/lib/check.h"

#define GROUPS 5

/* Ranks FIRST to LAST; of another range of the same, only these. */
struct told {
    int first, last;
    enum dt_doing doing;
    const char *where, *function, *collective, *keys, *object, *detail, *shape, *group;
    int64_t sequence; /* 0: unknown */
    int first_line, last_line;
};

struct row {
    const char *name;
    int size;
    struct told told[GROUPS];
    enum dt_hang_class class;
    bool guilty;
    int culprit; /* its first rank; -1: nobody */
    const char *sentence;
};

#define STILL "the job has stood still for 12 s: "

/* clang-format off */
#define OF(first_, last_, doing_, where_) \
    .first = first_, .last = last_, .doing = DT_DOING_##doing_, .where = where_
#define IN(first_, last_, collective_, where_) \
    {OF(first_, last_, COLLECTIVE, where_), .collective = collective_}
#define MEET(first_, last_, keys_) \
    {OF(first_, last_, COLLECTIVE, "train.py:7"), .collective = "init_process_group", .keys = keys_}

static const struct row rows[] = {
    /* One is outside of what the others wait in. */
    {"a rank sleeps outside the collective", 64,
     {{OF(2, 2, SLEEP, "train.py:5"), .function = "load_batch"}, IN(0, 1, "all_reduce", "train.py:11"),
      IN(3, 63, "all_reduce", "train.py:11")},
     DT_HANG_OUTSIDE, true, 2,
     "rank 2 sleeps at train.py:5 in load_batch(); ranks 0, 1 and 3 to 63 wait in all_reduce at train.py:11"},
    {"a rank spins", 4,
     {{OF(1, 1, COMPUTE, "/home/u/exp/train.py:7"), .function = "<module>"},
      IN(0, 0, "all_reduce", "/home/u/exp/train.py:11"), IN(2, 3, "all_reduce", "/home/u/exp/train.py:11")},
     DT_HANG_OUTSIDE, true, 1,
     "rank 1 computes at /home/u/exp/train.py:7; ranks 0, 2 and 3 wait in all_reduce at train.py:11"},
    {"files of one name are told apart", 4,
     {{OF(3, 3, SLEEP, "/exp/data/util.py:7"), .function = "get"}, IN(0, 2, "barrier", "/exp/model/util.py:90")},
     DT_HANG_OUTSIDE, true, 3,
     "rank 3 sleeps at /exp/data/util.py:7 in get(); ranks 0 to 2 wait in barrier at /exp/model/util.py:90"},
    {"a program that is no Python tells its section", 2,
     {{OF(1, 1, SLEEP, ""), .function = "section forward"}, {OF(0, 0, COLLECTIVE, ""), .collective = "all_reduce"}},
     DT_HANG_OUTSIDE, false, 1, "rank 1 sleeps in section forward; rank 0 waits in all_reduce"},
    {"a C call holds the GIL", 4,
     {{OF(0, 0, COMPUTE, "train.py:9"), .function = "pack", .detail = "holds the GIL"},
      IN(1, 3, "all_gather", "train.py:20")},
     DT_HANG_OUTSIDE, true, 0,
     "rank 0 computes at train.py:9 in pack() (holds the GIL); ranks 1 to 3 wait in all_gather at train.py:20"},
    {"a rank waits for a lock", 4,
     {{OF(2, 2, LOCK, "cache.py:33"), .function = "get"}, IN(0, 1, "all_reduce", "train.py:11"),
      IN(3, 3, "all_reduce", "train.py:11")},
     DT_HANG_LOCK, true, 2,
     "rank 2 waits for a thread of its own at cache.py:33 in get(); ranks 0, 1 and 3 wait in all_reduce at train.py:11"},
    {"a rank reads a pipe", 3,
     {{OF(2, 2, PIPE, "train.py:3"), .object = "standard input"}, IN(0, 1, "all_reduce", "train.py:11")},
     DT_HANG_OUTSIDE, true, 2,
     "rank 2 waits for a pipe at train.py:3: standard input; ranks 0 and 1 wait in all_reduce at train.py:11"},
    {"a rank waits for a server", 3,
     {{OF(0, 0, SOCKET, "s3.py:44"), .object = "10.0.0.9:443"}, IN(1, 2, "all_reduce", "train.py:11")},
     DT_HANG_OUTSIDE, true, 0,
     "rank 0 waits for a peer at s3.py:44: 10.0.0.9:443; ranks 1 and 2 wait in all_reduce at train.py:11"},
    {"a rank reads a file that does not come", 3,
     {{OF(1, 1, DISK, "data.py:8"), .object = "/mnt/nfs/part-7"}, IN(0, 0, "all_reduce", "train.py:11"),
      IN(2, 2, "all_reduce", "train.py:11")},
     DT_HANG_DISK, true, 1,
     "rank 1 waits for a disk at data.py:8: /mnt/nfs/part-7; ranks 0 and 2 wait in all_reduce at train.py:11"},
    {"a disk is full", 2,
     {{OF(0, 0, DISK, "save.py:8"), .object = "/ckpt/9.pt", .detail = "its file system is full"},
      IN(1, 1, "barrier", "save.py:12")},
     DT_HANG_DISK, true, 0,
     "rank 0 waits for a disk at save.py:8: /ckpt/9.pt (its file system is full); rank 1 waits in barrier at save.py:12"},
    {"a loader's process is dead", 4,
     {{OF(3, 3, CHILD, "train.py:9"), .object = "process 812 is gone"}, IN(0, 2, "all_reduce", "train.py:11")},
     DT_HANG_CHILD, true, 3,
     "rank 3 waits for a process of its own at train.py:9: process 812 is gone; "
     "ranks 0 to 2 wait in all_reduce at train.py:11"},
    {"a loader's process is in D state", 2,
     {{OF(1, 1, CHILD, "train.py:9"), .object = "process 813: D state in /mnt/nfs/part-7"},
      IN(0, 0, "all_reduce", "train.py:11")},
     DT_HANG_CHILD, true, 1,
     "rank 1 waits for a process of its own at train.py:9: process 813: D state in /mnt/nfs/part-7; "
     "rank 0 waits in all_reduce at train.py:11"},
    {"a loader is out of shared memory", 4,
     {{OF(1, 1, CHILD, "train.py:9"), .object = "process 813 was killed", .detail = "/dev/shm is full"},
      IN(0, 0, "all_reduce", "train.py:11"), IN(2, 3, "all_reduce", "train.py:11")},
     DT_HANG_CHILD, true, 1,
     "rank 1 waits for a process of its own at train.py:9: process 813 was killed (/dev/shm is full); "
     "ranks 0, 2 and 3 wait in all_reduce at train.py:11"},
    {"a rank is stopped", 4,
     {{OF(1, 1, STOPPED, "train.py:6")}, IN(0, 0, "all_reduce", "train.py:11"), IN(2, 3, "all_reduce", "train.py:11")},
     DT_HANG_STOPPED, true, 1,
     "rank 1 is stopped at train.py:6; ranks 0, 2 and 3 wait in all_reduce at train.py:11"},
    {"a rank has left", 4,
     {{OF(3, 3, LEFT, "")}, IN(0, 2, "all_reduce", "train.py:11")},
     DT_HANG_LEFT, true, 3, "rank 3 has left; ranks 0 to 2 wait in all_reduce at train.py:11"},
    {"a barrier is reached by all but one", 4,
     {{OF(0, 0, SLEEP, "train.py:30"), .function = "evaluate"}, IN(1, 3, "barrier", "train.py:40")},
     DT_HANG_OUTSIDE, true, 0,
     "rank 0 sleeps at train.py:30 in evaluate(); ranks 1 to 3 wait in barrier at train.py:40"},
    {"a barrier is reached by all but a few", 8,
     {{OF(0, 1, WAIT, "train.py:30"), .object = "epoll_wait"}, {OF(5, 5, SLEEP, "train.py:31")},
      IN(2, 4, "barrier", "train.py:40"), IN(6, 7, "barrier", "train.py:40")},
     DT_HANG_OUTSIDE, true, 5,
     "rank 5 sleeps at train.py:31; ranks 2 to 4, 6 and 7 wait in barrier at train.py:40; "
     "ranks 0 and 1 wait in the kernel at train.py:30: epoll_wait"},
    {"what explains a hang by itself goes first", 8,
     {{OF(0, 0, SLEEP, "a.py:1")}, {OF(1, 2, DISK, "b.py:2"), .object = "/f"}, IN(3, 7, "barrier", "c.py:3")},
     DT_HANG_DISK, true, 1,
     "ranks 1 and 2 wait for a disk at b.py:2: /f; ranks 3 to 7 wait in barrier at c.py:3; rank 0 sleeps at a.py:1"},

    /* Waiting before guilty. */
    {"a rank compiles", 4,
     {{OF(0, 0, COMPILE, "model.py:5"), .function = "forward"}, IN(1, 3, "all_reduce", "train.py:11")},
     DT_HANG_BUSY, false, 0,
     "rank 0 compiles at model.py:5 in forward(); ranks 1 to 3 wait in all_reduce at train.py:11"},
    {"a rank collects garbage", 4,
     {{OF(2, 2, COLLECT, "train.py:8")}, IN(0, 1, "all_reduce", "train.py:11"), IN(3, 3, "all_reduce", "train.py:11")},
     DT_HANG_BUSY, false, 2,
     "rank 2 collects garbage at train.py:8; ranks 0, 1 and 3 wait in all_reduce at train.py:11"},
    {"a rank saves", 4,
     {{OF(0, 0, SAVE, "train.py:50")}, IN(1, 3, "barrier", "train.py:52")},
     DT_HANG_BUSY, false, 0, "rank 0 writes a checkpoint at train.py:50; ranks 1 to 3 wait in barrier at train.py:52"},
    {"who sleeps goes before who saves", 4,
     {{OF(0, 0, SAVE, "train.py:50")}, {OF(1, 1, SLEEP, "train.py:5")}, IN(2, 3, "barrier", "train.py:52")},
     DT_HANG_OUTSIDE, false, 1,
     "rank 1 sleeps at train.py:5; ranks 2 and 3 wait in barrier at train.py:52; rank 0 writes a checkpoint at train.py:50"},
    {"half are outside", 4,
     {{OF(2, 3, SLEEP, "train.py:5")}, IN(0, 1, "all_reduce", "train.py:11")},
     DT_HANG_OUTSIDE, false, 2, "ranks 2 and 3 sleep at train.py:5; ranks 0 and 1 wait in all_reduce at train.py:11"},
    {"who waits may be the odd one", 4,
     {{OF(1, 3, SLEEP, "train.py:5")}, IN(0, 0, "all_reduce", "train.py:11")},
     DT_HANG_OUTSIDE, false, 1, "ranks 1 to 3 sleep at train.py:5; rank 0 waits in all_reduce at train.py:11"},
    {"most have left", 4,
     {{OF(1, 3, LEFT, "")}, IN(0, 0, "barrier", "train.py:11")},
     DT_HANG_LEFT, false, 1, "ranks 1 to 3 have left; rank 0 waits in barrier at train.py:11"},

    /* All wait, but not in the same. */
    {"a branch skips a collective", 4,
     {IN(0, 1, "all_reduce", "train.py:11"), IN(2, 2, "barrier", "train.py:12"), IN(3, 3, "all_reduce", "train.py:11")},
     DT_HANG_SKIPPED, true, 2,
     "rank 2 waits in barrier at train.py:12; ranks 0, 1 and 3 wait in all_reduce at train.py:11"},
    {"two different collectives", 4,
     {IN(0, 2, "all_reduce", "train.py:11"), IN(3, 3, "broadcast", "sync.py:4")},
     DT_HANG_MISMATCH, true, 3,
     "rank 3 waits in broadcast at sync.py:4; ranks 0 to 2 wait in all_reduce at train.py:11"},
    {"two lines of one collective", 4,
     {IN(0, 2, "all_reduce", "train.py:11"), IN(3, 3, "all_reduce", "train.py:4")},
     DT_HANG_MISMATCH, true, 3,
     "rank 3 waits in all_reduce at train.py:4; ranks 0 to 2 wait in all_reduce at train.py:11"},
    {"half the ranks in each of two lines", 4,
     {IN(0, 1, "all_reduce", "sync.py:11"), IN(2, 3, "broadcast", "train.py:4")},
     DT_HANG_MISMATCH, false, -1,
     "ranks 0 and 1 wait in all_reduce at sync.py:11; ranks 2 and 3 wait in broadcast at train.py:4"},
    {"one of two ranks has skipped one", 2,
     {IN(0, 0, "barrier", "train.py:12"), IN(1, 1, "all_reduce", "train.py:11")},
     DT_HANG_SKIPPED, false, -1,
     "rank 0 waits in barrier at train.py:12; rank 1 waits in all_reduce at train.py:11"},
    {"a rank is one call behind", 4,
     {{OF(0, 2, COLLECTIVE, "train.py:11"), .collective = "all_reduce", .sequence = 48},
      {OF(3, 3, COLLECTIVE, "train.py:11"), .collective = "all_reduce", .sequence = 47}},
     DT_HANG_SKIPPED, true, 3,
     "rank 3 waits in all_reduce number 47 at train.py:11; ranks 0 to 2 wait in all_reduce number 48 at train.py:11"},
    {"sizes differ", 4,
     {{OF(0, 2, COLLECTIVE, "train.py:11"), .collective = "all_reduce", .shape = "Float [1024]", .sequence = 48},
      {OF(3, 3, COLLECTIVE, "train.py:11"), .collective = "all_reduce", .shape = "Float [512]", .sequence = 48}},
     DT_HANG_SHAPE, true, 3,
     "rank 3 waits in all_reduce of Float [512] at train.py:11; ranks 0 to 2 wait in all_reduce of Float [1024] at "
     "train.py:11"},
    {"groups differ", 4,
     {{OF(0, 2, COLLECTIVE, "train.py:11"), .collective = "all_reduce", .group = "tp"},
      {OF(3, 3, COLLECTIVE, "train.py:20"), .collective = "all_reduce", .group = "dp"}},
     DT_HANG_MISMATCH, false, 3,
     "rank 3 waits in all_reduce of group dp at train.py:20; ranks 0 to 2 wait in all_reduce of group tp at train.py:11"},
    {"all are inside the same one", 8,
     {IN(0, 7, "all_reduce", "train.py:11")},
     DT_HANG_NETWORK, false, -1, "ranks 0 to 7 wait in all_reduce at train.py:11; no rank is missing"},
    {"all are inside the same one, called from two lines", 4,
     {{OF(0, 0, COLLECTIVE, "train.py:11"), .collective = "broadcast", .sequence = 5},
      {OF(1, 3, COLLECTIVE, "train.py:14"), .collective = "broadcast", .sequence = 5}},
     DT_HANG_NETWORK, false, -1,
     "ranks 1 to 3 wait in broadcast at train.py:14; rank 0 waits in broadcast at train.py:11; no rank is missing"},

    /* GPUs: what NCCL tells of calls. */
    {"a rank has not called what the GPUs of the others wait in", 4,
     {{OF(2, 2, SLEEP, "train.py:5"), .collective = "all_reduce", .group = "pg", .sequence = 47},
      {OF(0, 1, COMPUTE, "train.py:20"), .collective = "all_reduce", .group = "pg", .sequence = 48},
      {OF(3, 3, COMPUTE, "train.py:20"), .collective = "all_reduce", .group = "pg", .sequence = 48}},
     DT_HANG_OUTSIDE, true, 2,
     "rank 2 sleeps at train.py:5; ranks 0, 1 and 3 wait in all_reduce at train.py:20 (most likely: the GPU has not ended "
     "it)"},
    {"a rank spins, and has not called it", 4,
     {{OF(0, 0, COMPUTE, "train.py:7"), .collective = "all_reduce", .group = "pg", .sequence = 47},
      {OF(1, 3, WAIT, "train.py:20"), .object = "ioctl", .collective = "all_reduce", .group = "pg", .sequence = 48}},
     DT_HANG_OUTSIDE, true, 0,
     "rank 0 computes at train.py:7; ranks 1 to 3 wait in all_reduce at train.py:20 (most likely: the GPU has not ended "
     "it)"},
    {"all GPUs are in the same call", 4,
     {{OF(0, 3, COMPUTE, "train.py:20"), .collective = "all_reduce", .group = "pg", .sequence = 48}},
     DT_HANG_NETWORK, false, -1,
     "ranks 0 to 3 wait in all_reduce at train.py:20 (most likely: the GPU has not ended it); no rank is missing"},
    {"calls of two groups cannot be compared", 4,
     {{OF(0, 0, SLEEP, "train.py:7"), .collective = "all_reduce", .group = "tp", .sequence = 4},
      {OF(1, 3, COMPUTE, "train.py:20"), .collective = "all_reduce", .group = "dp", .sequence = 48}},
     DT_HANG_OUTSIDE, false, 0, "rank 0 sleeps at train.py:7; ranks 1 to 3 compute at train.py:20"},
    {"nor where one tells of none", 4,
     {{OF(0, 0, SLEEP, "train.py:7")},
      {OF(1, 3, COMPUTE, "train.py:20"), .collective = "all_reduce", .group = "dp", .sequence = 48}},
     DT_HANG_OUTSIDE, false, 0, "rank 0 sleeps at train.py:7; ranks 1 to 3 compute at train.py:20"},

    /* In one function for long. */
    {"a rank goes round a loop", 4,
     {{OF(1, 1, SLEEP, "/exp/train.py:31"), .function = "fetch", .first_line = 28, .last_line = 34},
      IN(0, 0, "all_reduce", "/exp/train.py:40"), IN(2, 3, "all_reduce", "/exp/train.py:40")},
     DT_HANG_LONG, false, 1,
     "rank 1 loops at /exp/train.py:31 in fetch() between lines 28 and 34; ranks 0, 2 and 3 wait in all_reduce at train.py:40"},
    {"a rank computes for long", 2,
     {{OF(0, 0, COMPUTE, "train.py:9"), .function = "tokenize", .first_line = 9, .last_line = 9},
      IN(1, 1, "barrier", "train.py:12")},
     DT_HANG_LONG, false, 0, "rank 0 computes at train.py:9 in tokenize(); rank 1 waits in barrier at train.py:12"},
    {"a rank that is stuck tells more than one that loops", 4,
     {{OF(1, 1, SLEEP, "train.py:31"), .first_line = 28, .last_line = 34}, {OF(0, 0, STOPPED, "train.py:3")},
      IN(2, 3, "all_reduce", "train.py:40")},
     DT_HANG_STOPPED, true, 0,
     "rank 0 is stopped at train.py:3; ranks 2 and 3 wait in all_reduce at train.py:40; "
     "rank 1 loops at train.py:31 between lines 28 and 34"},

    /* The store. */
    {"init waits for a rank that sleeps", 4,
     {{OF(3, 3, SLEEP, "train.py:5")}, {OF(0, 2, STORE, "train.py:7"), .keys = "default_pg/0//cpu//0/3"}},
     DT_HANG_KEY, true, 3,
     "rank 3 sleeps at train.py:5; ranks 0 to 2 wait in the job's store at train.py:7 for rank 3's address "
     "(key default_pg/0//cpu//0/3); rank 3 should set the key"},
    {"the key names which of two", 8,
     {{OF(2, 2, SLEEP, "train.py:5")}, {OF(3, 3, COMPUTE, "train.py:6")},
      {OF(0, 1, STORE, "train.py:7"), .keys = "rank_3"}, {OF(4, 7, STORE, "train.py:7"), .keys = "rank_3"}},
     DT_HANG_KEY, true, 3,
     "rank 3 computes at train.py:6; ranks 0, 1 and 4 to 7 wait in the job's store at train.py:7 for key rank_3; "
     "rank 2 sleeps at train.py:5; rank 3 should set the key"},
    {"ranks that meet wait for one address by two names", 3,
     {{OF(1, 1, SLEEP, "train.py:5")}, MEET(0, 0, "worker/attempt_0/default_pg/0/0/1"),
      MEET(2, 2, "worker/attempt_0/default_pg/0/0/rank_1")},
     DT_HANG_OUTSIDE, true, 1,
     "rank 1 sleeps at train.py:5; ranks 0 and 2 wait in init_process_group at train.py:7 for rank 1's address "
     "(key worker/attempt_0/default_pg/0/0/1)"},
    {"the key names which of two, inside of init_process_group, too", 4,
     {{OF(1, 1, SLEEP, "train.py:5")}, {OF(2, 2, COMPUTE, "train.py:6")}, MEET(0, 0, "default_pg/0//cpu//0/2"),
      MEET(3, 3, "default_pg/0//cpu//0/2")},
     DT_HANG_OUTSIDE, false, 2,
     "rank 2 computes at train.py:6; ranks 0 and 3 wait in init_process_group at train.py:7 for rank 2's address "
     "(key default_pg/0//cpu//0/2); rank 1 sleeps at train.py:5"},
    {"ranks that meet wait for different ones", 4,
     {{OF(3, 3, SLEEP, "train.py:5")}, MEET(0, 1, "default_pg/0//cpu//0/2"), MEET(2, 2, "default_pg/0//cpu//0/3")},
     DT_HANG_OUTSIDE, true, 3,
     "rank 3 sleeps at train.py:5; ranks 0 to 2 wait in init_process_group at train.py:7 "
     "(rank 0: for rank 2's address (key default_pg/0//cpu//0/2))"},
    {"one of those who meet tells which of two is missing", 5,
     {{OF(2, 2, SLEEP, "train.py:5")}, {OF(3, 3, COMPUTE, "train.py:6")}, MEET(0, 0, NULL),
      MEET(1, 1, "default_pg/0//cpu//0/3"), MEET(4, 4, NULL)},
     DT_HANG_OUTSIDE, true, 3,
     "rank 3 computes at train.py:6; ranks 0, 1 and 4 wait in init_process_group at train.py:7 "
     "(rank 1: for rank 3's address (key default_pg/0//cpu//0/3)); rank 2 sleeps at train.py:5"},
    {"not all of those who meet wait for a key", 3,
     {{OF(2, 2, SLEEP, "train.py:5")}, MEET(0, 0, NULL), MEET(1, 1, "default_pg/1/0/1")},
     DT_HANG_OUTSIDE, true, 2,
     "rank 2 sleeps at train.py:5; ranks 0 and 1 wait in init_process_group at train.py:7 "
     "(rank 1: for the address of rank 1 of group 1 (key default_pg/1/0/1))"},
    {"the world is larger than the job", 2,
     {MEET(0, 1, "default_pg/0//cpu//0/2")},
     DT_HANG_KEY, false, -1,
     "ranks 0 and 1 wait in init_process_group at train.py:7 for rank 2's address (key default_pg/0//cpu//0/2); "
     "this job has no such rank"},
    {"all are where they meet, and nobody knows of the one that is missing", 2,
     {IN(0, 1, "init_process_group", "train.py:7")},
     DT_HANG_KEY, false, -1, "ranks 0 and 1 wait in init_process_group at train.py:7"},
    {"the rank of the key is already in a collective", 4,
     {{OF(1, 1, STORE, "train.py:7"), .keys = "default_pg/0//cuda//1"}, IN(0, 0, "all_reduce", "train.py:11"),
      IN(2, 3, "all_reduce", "train.py:11")},
     DT_HANG_KEY, false, 0,
     "ranks 0, 2 and 3 wait in all_reduce at train.py:11; rank 1 waits in the job's store at train.py:7 for "
     "NCCL's id, which rank 0 gives (key default_pg/0//cuda//1); rank 0 should set the key"},
    {"all wait for a key that names nobody", 4,
     {{OF(0, 3, STORE, "train.py:7"), .keys = "default_pg/0//store_based_barrier_key:1:last_worker"}},
     DT_HANG_KEY, false, -1,
     "ranks 0 to 3 wait in the job's store at train.py:7 for the last rank of group 1 to come "
     "(key default_pg/0//store_based_barrier_key:1:last_worker)"},
    {"the number in a key is no rank of this job", 2,
     {{OF(0, 1, STORE, "train.py:7"), .keys = "job/2024"}},
     DT_HANG_KEY, false, -1, "ranks 0 and 1 wait in the job's store at train.py:7 for key job/2024"},
    {"a rank asks for a key while the others are in a collective", 3,
     {{OF(1, 1, STORE, "train.py:7"), .keys = "default_pg/0//tokenizer"}, IN(0, 0, "all_reduce", "train.py:11"),
      IN(2, 2, "all_reduce", "train.py:11")},
     DT_HANG_KEY, false, 1,
     "rank 1 waits in the job's store at train.py:7 for key default_pg/0//tokenizer; ranks 0 and 2 wait in all_reduce at "
     "train.py:11"},
    {"which key it is is not known", 2,
     {{OF(0, 1, STORE, "train.py:7")}},
     DT_HANG_KEY, false, -1, "ranks 0 and 1 wait in the job's store at train.py:7"},
    {"who should set a key could not be looked at", 4,
     {{OF(0, 2, STORE, "train.py:7"), .keys = "rank_3"}},
     DT_HANG_KEY, false, -1,
     "rank 3 could not be looked at; ranks 0 to 2 wait in the job's store at train.py:7 for key rank_3; rank 3 should set "
     "the key"},

    /* All alike, or none known. */
    {"a loader starves all ranks alike", 4,
     {{OF(0, 0, CHILD, "train.py:9"), .object = "process 81 sleeps"},
      {OF(1, 3, CHILD, "train.py:9"), .object = "process 82 sleeps"}},
     DT_HANG_STARVED, false, 0, "ranks 0 to 3 wait for processes of their own at train.py:9 (rank 0: process 81 sleeps)"},
    {"all wait for a peer", 4,
     {{OF(0, 3, SOCKET, ""), .object = "10.0.0.1:29500"}},
     DT_HANG_NETWORK, false, 0, "ranks 0 to 3 wait for a peer: 10.0.0.1:29500; no rank is missing"},
    {"all wait for one disk", 4,
     {{OF(0, 3, DISK, "data.py:3"), .object = "/mnt/nfs"}},
     DT_HANG_DISK, false, 0, "ranks 0 to 3 wait for a disk at data.py:3: /mnt/nfs"},
    {"all are stopped", 2, {{OF(0, 1, STOPPED, "")}}, DT_HANG_STOPPED, true, 0, "ranks 0 and 1 are stopped"},
    {"all sleep", 8, {{OF(0, 7, SLEEP, "train.py:5"), .function = "main"}},
     DT_HANG_OUTSIDE, false, 0, "ranks 0 to 7 sleep at train.py:5 in main()"},
    {"nobody is known to wait, and one differs", 4,
     {{OF(0, 2, LOCK, "")}, {OF(3, 3, SLEEP, "")}},
     DT_HANG_OUTSIDE, false, 3, "rank 3 sleeps; ranks 0 to 2 wait for threads of their own"},
    {"one worker alone", 1, {{OF(0, 0, LOCK, "train.py:5"), .function = "put"}},
     DT_HANG_LOCK, false, 0, "rank 0 waits for a thread of its own at train.py:5 in put()"},
    {"one worker alone, whose loader is dead", 1, {{OF(0, 0, CHILD, "train.py:5"), .object = "process 9 is gone"}},
     DT_HANG_CHILD, true, 0, "rank 0 waits for a process of its own at train.py:5: process 9 is gone"},
    {"a rank could not be looked at", 4,
     {{OF(3, 3, UNKNOWN, ""), .detail = "not allowed"}, IN(0, 2, "all_reduce", "train.py:11")},
     DT_HANG_UNREADABLE, false, 3,
     "rank 3 could not be looked at (not allowed); ranks 0 to 2 wait in all_reduce at train.py:11"},
    {"why one could not be looked at is not said of others", 8,
     {{OF(3, 3, UNKNOWN, ""), .detail = "not allowed"}, IN(0, 2, "all_reduce", "train.py:11")},
     DT_HANG_UNREADABLE, false, 3,
     "ranks 3 to 7 could not be looked at; ranks 0 to 2 wait in all_reduce at train.py:11"},
    {"an agent did not answer", 8,
     {IN(0, 3, "all_reduce", "train.py:11")},
     DT_HANG_UNREADABLE, false, -1,
     "ranks 4 to 7 could not be looked at; ranks 0 to 3 wait in all_reduce at train.py:11"},
    {"one is outside, and another agent did not answer", 8,
     {{OF(2, 2, SLEEP, "train.py:5")}, IN(0, 1, "all_reduce", "train.py:11"), IN(3, 3, "all_reduce", "train.py:11")},
     DT_HANG_OUTSIDE, true, 2,
     "rank 2 sleeps at train.py:5; ranks 0, 1 and 3 wait in all_reduce at train.py:11; "
     "ranks 4 to 7 could not be looked at"},
    {"nobody could be looked at", 2, {{.first = 0, .last = -1}}, DT_HANG_UNREADABLE, false, -1,
     "ranks 0 and 1 could not be looked at"},
};
/* clang-format on */

static void set(char *to, size_t size, const char *text)
{
    snprintf(to, size, "%s", text ? text : "");
}

static void tell(struct dt_stances *s, const struct told *t)
{
    struct dt_stance stance = {.doing = t->doing,
                               .sequence = t->sequence ? t->sequence : -1,
                               .first_line = t->first_line,
                               .last_line = t->last_line,
                               .step = -1,
                               .still = 12 * DT_SECOND};
    struct dt_err err;
    set(stance.where, sizeof stance.where, t->where);
    set(stance.function, sizeof stance.function, t->function);
    set(stance.collective, sizeof stance.collective, t->collective);
    set(stance.group, sizeof stance.group, t->group);
    set(stance.shape, sizeof stance.shape, t->shape);
    set(stance.keys, sizeof stance.keys, t->keys);
    set(stance.object, sizeof stance.object, t->object);
    set(stance.detail, sizeof stance.detail, t->detail);
    for (int rank = t->first; rank <= t->last; rank++)
        CHECK_OK(dt_stances_add(s, &stance, rank, &err), err);
}

static void judge_row(const struct row *r, struct dt_stances *s, struct dt_hang_finding *f)
{
    for (size_t i = 0; i < GROUPS && (r->told[i].where || i == 0); i++)
        tell(s, &r->told[i]);
    dt_hang_judge(s, r->size, 12 * DT_SECOND + 345, f);
}

TEST(situations_and_what_is_said_of_them)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct row *r = &rows[i];
        struct dt_stances s = {0};
        struct dt_hang_finding f;
        char sentence[DT_HANG_SENTENCE_MAX];
        CHECK_ROW("%s", r->name);
        judge_row(r, &s, &f);
        snprintf(sentence, sizeof sentence, STILL "%s", r->sentence);
        CHECK_STR(f.sentence, sentence);
        CHECK_STR(dt_hang_class_name(f.class), dt_hang_class_name(r->class));
        CHECK_EQ(f.guilty, r->guilty);
        CHECK_EQ(f.culprit < 0 ? -1 : s.at[f.culprit].ranges[0].first, r->culprit);
        CHECK(*f.advice != '\0' && !strchr(f.advice, '\n'));
        dt_stances_finish(&s);
    }
}

/* Whoever waits for others in a collective or at the store, alone or with many, is not to blame
 * unless another collective is what the others wait in. */
TEST(who_waits_is_never_guilty_of_being_outside)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct dt_stances s = {0};
        struct dt_hang_finding f;
        CHECK_ROW("%s", rows[i].name);
        judge_row(&rows[i], &s, &f);
        bool of_calls =
            f.class == DT_HANG_SKIPPED || f.class == DT_HANG_MISMATCH || f.class == DT_HANG_SHAPE;
        if (f.guilty && !of_calls)
            CHECK(s.at[f.culprit].stance.doing != DT_DOING_COLLECTIVE &&
                  s.at[f.culprit].stance.doing != DT_DOING_STORE);
        CHECK(f.class != DT_HANG_BUSY || !f.guilty);
        dt_stances_finish(&s);
    }
}

TEST(every_class_has_a_name_of_its_own)
{
    for (int i = 0; i < DT_HANG_CLASSES; i++)
        for (int k = 0; k < i; k++)
            CHECK(strcmp(dt_hang_class_name((enum dt_hang_class)i),
                         dt_hang_class_name((enum dt_hang_class)k)) != 0);
}

TEST(of_no_workers_nothing_is_said)
{
    struct dt_stances s = {0};
    struct dt_hang_finding f;
    dt_hang_judge(&s, 0, DT_SECOND, &f);
    CHECK_EQ(f.class, DT_HANG_NONE);
    CHECK_STR(f.sentence, "");
    CHECK_EQ(f.culprit, -1);
}

/* As the rendezvous has them: 512 agents, each of eight ranks. */
TEST(one_of_4096_ranks)
{
    struct dt_stances job = {0};
    struct dt_hang_finding f;
    struct dt_err err;
    for (int node = 0; node < 512; node++) {
        struct dt_stances s = {0};
        struct told all = IN(8 * node, 8 * node + 7, "all_reduce", "/exp/train.py:11");
        struct told one = {OF(2047, 2047, SLEEP, "/exp/train.py:5"), .function = "load_batch"};
        tell(&s, &all);
        if (node == 2047 / 8)
            tell(&s, &one);
        CHECK_OK(dt_stances_merge(&job, &s, &err), err);
        dt_stances_finish(&s);
    }
    dt_hang_judge(&job, 4096, 90 * DT_SECOND, &f);
    CHECK_STR(f.sentence,
              "the job has stood still for 1.5 min: rank 2047 sleeps at /exp/train.py:5 in "
              "load_batch(); ranks 0 to 2046 and 2048 to 4095 wait in all_reduce at train.py:11");
    CHECK(f.guilty);
    dt_stances_finish(&job);
}

TEST(many_places_are_not_all_named)
{
    struct dt_stances s = {0};
    struct dt_hang_finding f;
    for (int rank = 0; rank < 8; rank++) {
        char where[20];
        snprintf(where, sizeof where, "a.py:%d", rank);
        struct told t = {OF(rank, rank, COMPUTE, where)};
        tell(&s, &t);
    }
    dt_hang_judge(&s, 8, 12 * DT_SECOND, &f);
    CHECK_STR(f.sentence, STILL "rank 0 computes at a.py:0; rank 1 computes at a.py:1; rank 2 "
                                "computes at a.py:2; rank 3 computes at a.py:3; 4 more ranks "
                                "elsewhere");
    CHECK(!f.guilty);
    dt_stances_finish(&s);
}

TEST(a_long_sentence_is_cut_behind_the_culprit)
{
    char path[DT_STANCE_WHERE_MAX], object[DT_STANCE_OBJECT_MAX], start[200];
    struct dt_stances s = {0};
    struct dt_hang_finding f;
    for (size_t i = 0; i + 1 < sizeof path; i++)
        path[i] = "\xc3\xbc"[i % 2];
    memset(object, 'o', sizeof object);
    memcpy(path, "rank.py:7 ", 10);
    path[sizeof path - 2] = path[sizeof path - 1] = object[sizeof object - 1] = '\0';
    struct told rows_of[] = {{OF(0, 0, DISK, path), .object = object, .detail = object},
                             {OF(1, 2, STORE, path), .keys = object, .detail = object}};
    tell(&s, &rows_of[0]);
    tell(&s, &rows_of[1]);
    dt_hang_judge(&s, 3, 12 * DT_SECOND, &f);
    CHECK_EQ(strlen(f.sentence) < DT_HANG_SENTENCE_MAX, true);
    CHECK_STR(f.sentence + strlen(f.sentence) - 3, "...");
    snprintf(start, sizeof start, STILL "rank 0 waits for a disk at rank.py:7");
    CHECK_BYTES(f.sentence, strlen(start), start, strlen(start));
    dt_stances_finish(&s);
}
