/* SPDX-License-Identifier: Apache-2.0 */
/* The real dtrun-ctl ($DT_CTL) against a stand-in for a rendezvous: what it asks, what it prints,
 * how it exits. */
#ifndef DT_TESTS_CTL_CTL_STORY_H
#define DT_TESTS_CTL_CTL_STORY_H

#include "base/fs.h"
#include "tests/lib/folder.h"
#include "tests/lib/scripted.h"

#include <sys/wait.h>

BEFORE_ALL
{
    folder_make();
    if (!getenv("DT_CTL"))
        SKIP("DT_CTL does not name the program");
    unsetenv("DTRUN_RENDEZVOUS");
}

static char out[16384], errors[4096];

static inline void read_into(const char *path, char *text, size_t size)
{
    struct dt_buf b = {0};
    struct dt_err err = {0};
    CHECK_OK(dt_fs_read(path, size - 1, &b, &err), err);
    snprintf(text, size, "%s", dt_buf_cstr(&b));
    dt_buf_finish(&b);
}

/* Its exit status; `out` and `errors` have what it said. */
static inline int ctl_with(const char *args)
{
    char line[1024];
    snprintf(line, sizeof line, "\"$DT_CTL\" --timeout 20 %s >'%s' 2>'%s'", args, at("out"),
             at("errors"));
    int status = system(line);
    read_into(at("out"), out, sizeof out);
    read_into(at("errors"), errors, sizeof errors);
    CHECK(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static inline int ctl(const char *addr, const char *args)
{
    char line[512];
    snprintf(line, sizeof line, "--endpoint '%s' %s", addr, args);
    return ctl_with(line);
}

/* The same with S serving. */
static inline int ctl_at(struct scripted *s, const char *args)
{
    scripted_start(s);
    int status = ctl(s->addr, args);
    scripted_stop(s);
    return status;
}

static inline const char *asked(struct scripted *s)
{
    return dt_buf_cstr(&s->asked);
}

/* -- what a rendezvous answers ---------------------------------------------------------------- */

#define SERVER "\"server\":{\"host\":\"daemon\",\"version\":\"0.4\"}"
#define RUN(id, state, why)                                                                        \
    "{\"id\":\"" id "\",\"state\":\"" state "\",\"round\":4,\"world\":32,\"nodes\":4,\"min\":2,"   \
    "\"max\":4,\"restarts\":1,\"max_restarts\":3,\"losses\":1,\"since_s\":7200,"                   \
    "\"master\":\"node0:29500\",\"why\":\"" why "\"}"
#define NODE(name, run, doing, seat, age, step)                                                    \
    "{\"name\":\"" name "\",\"run\":\"" run "\",\"state\":\"online\",\"doing\":\"" doing "\","     \
    "\"seat\":" #seat ",\"workers\":8,\"beat_age_s\":" #age ",\"round\":4,\"step\":" #step "}"
#define EXCLUDED(name, why, until, strikes, drained, probation)                                    \
    "{\"name\":\"" name "\",\"why\":\"" why "\",\"until_s\":" #until ",\"strikes\":" #strikes ","  \
    "\"drained\":" #drained ",\"probation_s\":" #probation "}"
#define PAGE(runs, nodes, excluded, next)                                                          \
    "{\"type\":\"status\",\"page\":{" SERVER ",\"runs\":[" runs "],\"nodes\":[" nodes "],"         \
    "\"excluded\":[" excluded "],\"next\":" #next "}}"

static const char one_run[] =
    PAGE(RUN("llama", "running", ""),
         NODE("node0", "llama", "running", 0, 2,
              1200) "," NODE("node2", "llama", "running", 2, 5,
                             1190) "," NODE("node1", "llama", "running", 1, 1,
                                            1200) "," NODE("spare", "llama", "parked", -1, 3, -1),
         EXCLUDED("node7", "a new disk", 0, 0, true, 0) "," EXCLUDED(
             "node9", "Xid 79", 720, 2, false, 0) "," EXCLUDED("node8", "", 0, 1, false, 3600),
         0);

#endif
