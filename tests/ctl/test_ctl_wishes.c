/* SPDX-License-Identifier: Apache-2.0 */
/* What people wish of nodes and runs with dtrun-ctl: drain, pause, resume, stop, restart, save. */
#include "base/user.h"
#include "tests/ctl/ctl_story.h"

/* Whether that was said, by the user of this process. */
static bool wished(struct scripted *s, const char *type, const char *run, const char *rest)
{
    char line[512], user[DT_USER_MAX];
    snprintf(line, sizeof line, "{\"type\":\"%s\"%s,\"user\":\"%s\"%s}\n", type, run,
             dt_user_name(user), rest);
    return strstr(asked(s), line) != NULL;
}

TEST(a_node_is_drained_for_a_reason)
{
    struct scripted s = {
        .answers = (const char *const[]){
            "{\"type\":\"drain\",\"done\":true,\"why\":\"node7 is drained\"}", NULL}};
    CHECK_EQ(ctl_at(&s, "node drain node7 --why 'a new disk'"), 0);
    CHECK_STR(out, "node7 is drained\n");
    CHECK(wished(&s, "drain", "", ",\"node\":\"node7\",\"why\":\"a new disk\""));
    dt_buf_finish(&s.asked);
}

TEST(and_let_back)
{
    struct scripted s = {
        .answers = (const char *const[]){
            "{\"type\":\"drain\",\"done\":true,\"why\":\"node7 may come back\"}", NULL}};
    CHECK_EQ(ctl_at(&s, "node undrain node7 --json"), 0);
    CHECK_STR(out, "{\"node\":\"node7\",\"done\":true,\"why\":\"node7 may come back\"}\n");
    CHECK(wished(&s, "drain", "", ",\"node\":\"node7\",\"undo\":true"));
    dt_buf_finish(&s.asked);
}

TEST(and_all_at_once)
{
    struct scripted s = {.answers = (const char *const[]){
                             "{\"type\":\"drain\",\"done\":true,\"why\":\"12 came back\"}", NULL}};
    CHECK_EQ(ctl_at(&s, "node undrain --all"), 0);
    CHECK_STR(out, "12 came back\n");
    CHECK(wished(&s, "drain", "", ",\"undo\":true"));
    dt_buf_finish(&s.asked);
}

TEST(what_could_not_be_done_is_a_failure)
{
    struct scripted s = {.answers = (const char *const[]){
                             "{\"type\":\"drain\",\"why\":\"it was not drained\"}", NULL}};
    CHECK_EQ(ctl_at(&s, "node undrain node7"), 1);
    CHECK_STR(out, "");
    CHECK_STR(errors, "dtrun-ctl: node7: not done: it was not drained\n");
    dt_buf_finish(&s.asked);
}

TEST(a_run_is_paused_and_goes_on)
{
    struct scripted s = {.answers = (const char *const[]){
                             "{\"type\":\"pause\",\"done\":true,\"why\":\"it is paused\"}", NULL}};
    CHECK_EQ(ctl_at(&s, "run pause llama --why 'the roof leaks'"), 0);
    CHECK_STR(out, "it is paused\n");
    CHECK(wished(&s, "pause", ",\"run\":\"llama\"", ",\"why\":\"the roof leaks\""));
    dt_buf_finish(&s.asked);
    struct scripted none = {.answers = (const char *const[]){
                                "{\"type\":\"pause\",\"why\":\"there is no such run\"}", NULL}};
    CHECK_EQ(ctl_at(&none, "run resume llama --json"), 1);
    CHECK_STR(out, "{\"run\":\"llama\",\"done\":false,\"why\":\"there is no such run\"}\n");
    CHECK_STR(errors, "dtrun-ctl: llama: not done: there is no such run\n");
    CHECK(wished(&none, "pause", ",\"run\":\"llama\"", ",\"undo\":true"));
    dt_buf_finish(&none.asked);
}

TEST(a_run_is_stopped_or_restarted_for_a_reason)
{
    struct scripted s = {.answers = (const char *const[]){
                             "{\"type\":\"stop_run\",\"done\":true,\"why\":\"it ends\"}", NULL}};
    CHECK_EQ(ctl_at(&s, "run stop llama --why 'a demo'"), 0);
    CHECK_STR(out, "it ends\n");
    CHECK(wished(&s, "stop_run", ",\"run\":\"llama\"", ",\"why\":\"a demo\""));
    dt_buf_finish(&s.asked);
    struct scripted again = {
        .answers = (const char *const[]){
            "{\"type\":\"restart_run\",\"why\":\"none of its workers runs now\"}", NULL}};
    CHECK_EQ(ctl_at(&again, "run restart llama"), 1);
    CHECK_STR(errors, "dtrun-ctl: llama: not done: none of its workers runs now\n");
    CHECK(wished(&again, "restart_run", ",\"run\":\"llama\"", ""));
    dt_buf_finish(&again.asked);
}

TEST(a_checkpoint_is_asked_for)
{
    struct scripted s = {.answers = (const char *const[]){
                             "{\"type\":\"save\",\"done\":true,\"why\":\"2 of 2 nodes\"}", NULL}};
    CHECK_EQ(ctl_at(&s, "run save llama"), 0);
    CHECK_STR(out, "2 of 2 nodes\n");
    CHECK(wished(&s, "save", ",\"run\":\"llama\"", ""));
    dt_buf_finish(&s.asked);
}
