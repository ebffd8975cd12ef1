/* SPDX-License-Identifier: Apache-2.0 */
/* What is in a folder, and whether somebody writes it: real files. */
#include "agent/upload/scan.h"
#include "tests/lib/folder.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>

BEFORE_ALL
{
    folder_make();
}

static void run(const char *command)
{
    char line[700];
    snprintf(line, sizeof line, "cd '%s' && %s", dir, command);
    CHECK_EQ(system(line), 0);
}

static const char *scanned(const char *folder)
{
    static char text[1000];
    struct dt_follow_scan s;
    struct dt_err err = {0};
    *text = '\0';
    CHECK_OK(dt_scan_folder(&s, folder, &err), err);
    for (size_t i = 0; i < s.count; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s %d\n", s.at[i].path,
                 (int)s.at[i].bytes);
    dt_follow_scan_finish(&s);
    return text;
}

TEST(ordinary_files_are_found_and_temporary_ones_are_not)
{
    CHECK_STR(scanned(at("none")), "");
    run("mkdir -p f/step-1/optimizer f/.hidden f/tmp-step-2 && cd f && printf 12 > step-1/model &&"
        "printf 1 > step-1/optimizer/o && printf 123 > step-1/.metadata && printf x > .hidden/a &&"
        "printf x > tmp-step-2/a && printf x > a.tmp && printf x > step-1/.metadata.tmp &&"
        "mkfifo pipe && ln -s step-1 latest && ln -s a.tmp last.pt && ln -s /etc etc &&"
        "touch -d @10 step-1/optimizer/o && touch -d @20 step-1/model && touch -d @30 "
        "step-1/.metadata");
    CHECK_STR(scanned(at("f")), "step-1/optimizer/o 1\nstep-1/model 2\nstep-1/.metadata 3\n");
    struct dt_follow_scan s;
    struct dt_err err = {0};
    run("printf x > file");
    CHECK_FAIL(dt_scan_folder(&s, at("file"), &err), err, "cannot look into ");
}

/* Its entry would be called uploaded without it. */
TEST(a_folder_that_is_too_deep_or_cannot_be_opened_is_not_left_out)
{
    struct dt_follow_scan s;
    struct dt_err err = {0};
    run("mkdir -p deep/1/2/3/4/5/6/7/8/9/10/11/12/13/14/15/16");
    CHECK_STR(scanned(at("deep")), "");
    run("mkdir deep/1/2/3/4/5/6/7/8/9/10/11/12/13/14/15/16/17");
    CHECK_FAIL(dt_scan_folder(&s, at("deep"), &err), err, "/16/17: folders are nested more than");
    run("mkdir -p few/step-1/optimizer");
    struct rlimit had, few;
    int fd = open(dir, O_RDONLY | O_DIRECTORY);
    CHECK_EQ(getrlimit(RLIMIT_NOFILE, &had), 0);
    few = (struct rlimit){(rlim_t)fd + 3, had.rlim_max}; /* for few and step-1, and no more */
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
    int rc = dt_scan_folder(&s, at("few"), &err);
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &had), 0);
    CHECK_FAIL(rc, err, "few/step-1/optimizer: Too many open files");
    close(fd);
}

/* Where this file system knows no leases, nothing is known of writers. */
static bool has_leases(const char *path)
{
    int fd = open(path, O_RDONLY);
    bool has = fcntl(fd, F_SETLEASE, F_RDLCK) == 0;
    close(fd);
    return has;
}

TEST(a_file_that_is_open_for_writing_is_being_written)
{
    run("printf 12345678 > w");
    if (!has_leases(at("w")))
        SKIP("no leases in /tmp");
    CHECK(!dt_scan_is_written(at("w")));
    int reader = open(at("w"), O_RDONLY);
    CHECK(!dt_scan_is_written(at("w")));
    int writer = open(at("w"), O_RDWR);
    CHECK(dt_scan_is_written(at("w")));
    void *map = mmap(NULL, 8, PROT_READ | PROT_WRITE, MAP_SHARED, writer, 0);
    CHECK(map != MAP_FAILED);
    close(writer);
    CHECK(dt_scan_is_written(at("w"))); /* by the mapping */
    munmap(map, 8);
    CHECK(!dt_scan_is_written(at("w")));
    close(reader);
    CHECK(!dt_scan_is_written(at("none")));
}

TEST(a_folder_in_tmp_is_this_hosts_own)
{
    CHECK(!dt_scan_is_shared(dir));
    CHECK(!dt_scan_is_shared(at("not/yet/there")));
    CHECK(!dt_scan_is_shared("/proc"));
}
