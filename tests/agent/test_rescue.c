/* SPDX-License-Identifier: Apache-2.0 */
/* The program that a worker's note names, run over the files of all workers. */
#include "agent/rescue.h"

#include "agent/process/reap.h"
#include "rendezvous/protocol/vault_fds.h"
#include "tests/lib/folder.h"

#include <signal.h>
#include <sys/wait.h>

static uv_loop_t loop;
static struct dt_vaults *vaults;

BEFORE_ALL
{
    folder_make();
    uv_loop_init(&loop);
    vaults = dt_vaults_create(2);
    CHECK(vaults != NULL);
}

static const struct dt_plan *plan(void)
{
    static char run_id[] = "run-a";
    static struct dt_plan p = {.run_id = run_id};
    return &p;
}

static void leave(int local_rank, const void *bytes, uint32_t len)
{
    int fd = dt_vaults_own(vaults, local_rank);
    off_t at = (off_t)DT_VAULT_NOTE_AT;
    CHECK_EQ(pwrite(fd, &len, sizeof len, at), sizeof len);
    CHECK_EQ(pwrite(fd, bytes, len, at + (off_t)sizeof len), len);
}

/* A shell that works in the folder of this test. */
static void leave_script(int local_rank, const char *script)
{
    char note[2000];
    size_t len = 0;
    const char *const words[] = {at("."), "/bin/sh", "sh", "-c", script};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        memcpy(note + len, words[i], strlen(words[i]) + 1);
        len += strlen(words[i]) + 1;
    }
    leave(local_rank, note, (uint32_t)len);
}

static void on_over(void *arg)
{
    *(bool *)arg = true;
}

static struct dt_rescue *start(bool *over)
{
    *over = false;
    return dt_rescue_start(&loop, plan(), vaults, 4, on_over, over);
}

static void run(struct dt_rescue *r, const bool *over)
{
    CHECK(r != NULL);
    CHECK_EQ(uv_run(&loop, UV_RUN_DEFAULT), 0);
    CHECK(*over);
}

static const char *text_of(const char *name)
{
    static char text[1000];
    FILE *f = fopen(at(name), "r");
    CHECK(f != NULL);
    text[fread(text, 1, sizeof text - 1, f)] = '\0';
    fclose(f);
    return text;
}

TEST(without_a_note_nothing_is_started)
{
    bool over;
    CHECK(start(&over) == NULL);
}

TEST(it_works_in_its_folder_and_finds_the_files_and_the_round)
{
    char want[200];
    bool over;
    setenv("DTRUN_ROUND", "of an outer job", 1);
    leave_script(1,
                 "IFS=,; for f in $DTRUN_VAULT_FILES; do test -f /proc/self/fd/$f || exit; done; "
                 "echo $DTRUN_VAULT_FILES $TORCHELASTIC_RUN_ID $DTRUN_ROUND > said");
    run(start(&over), &over);
    snprintf(want, sizeof want, "%d %d %d %d run-a 4\n", dt_vaults_own(vaults, 0),
             dt_vaults_peer(vaults, 0), dt_vaults_own(vaults, 1), dt_vaults_peer(vaults, 1));
    CHECK_STR(text_of("said"), want);
}

TEST(one_that_has_no_time_left_is_killed_with_all_that_it_started)
{
    bool over;
    dt_reap_adopt();
    leave_script(1, "echo $$ > below; for i in $(seq 20); do sleep 1000 & done; sleep 1000; "
                    "echo ended > late");
    struct dt_rescue *r = start(&over);
    CHECK(r != NULL);
    while (access(at("below"), F_OK) < 0 || !*text_of("below"))
        uv_run(&loop, UV_RUN_NOWAIT);
    dt_rescue_limit(r, 1);
    dt_rescue_limit(r, 1000 * DT_SECOND); /* who asks again gives it no more time */
    run(r, &over);
    CHECK(access(at("late"), F_OK) < 0);
    /* What it has started went with it, also what it forked as it was killed. */
    while (dt_reap_has_session(0, (pid_t)atoi(text_of("below"))))
        while (waitpid(-1, NULL, WNOHANG) > 0)
            ;
}

TEST(a_note_that_is_none_starts_nothing)
{
    static const struct {
        const char *name, *bytes;
        uint32_t len;
    } rows[] = {
        {"no end", "/\0/bin/sh\0sh", 12},
        {"too few words", "/\0/bin/sh", 10},
        {"no such folder", "/no/such\0/bin/sh\0sh", 20},
        {"no such program", "/\0/no/such\0x", 13},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        bool over;
        CHECK_ROW("%s", rows[i].name);
        leave(1, rows[i].bytes, i == 0 ? rows[i].len - 1 : rows[i].len);
        CHECK(start(&over) == NULL);
    }
    uint32_t most = UINT32_MAX;
    CHECK_EQ(pwrite(dt_vaults_own(vaults, 1), &most, sizeof most, (off_t)DT_VAULT_NOTE_AT),
             sizeof most);
    bool over;
    CHECK(start(&over) == NULL);
}
