/* SPDX-License-Identifier: Apache-2.0 */
/* Who may hold up a run, or drain a node, by what is known of whoever asks. */
#include "rendezvous/runs/authority.h"
#include "tests/lib/check.h"

#define OURS DT_ASKER_OURS
#define ANOTHER DT_ASKER_ANOTHER
#define UNKNOWN DT_ASKER_UNKNOWN

TEST(a_run_obeys_who_began_it_and_the_operator)
{
    static const struct {
        const char *operator_key, *run_key, *owner;
        struct dt_asker who;
        const char *says; /* NULL: it may */
    } rows[] = {
        /* clang-format off */
        /* No tokens: names keep honest people apart. */
        {"", "", "ada", {"", UNKNOWN, "ada"}, NULL},
        {"", "", "ada", {"", UNKNOWN, ""}, NULL}, /* of a dtrun-ctl that does not tell */
        {"", "", "", {"", UNKNOWN, "bob"}, NULL},
        {"", "", "ada", {"", UNKNOWN, "bob"}, "the run is ada's; ask as that user"},
        {"", "", "ada", {"", ANOTHER, "ada"}, NULL},
        {"", "", "ada", {"", ANOTHER, "bob"}, "the run is ada's; ask as that user"},
        {"", "", "ada", {"", OURS, "root"}, NULL},
        {"", "", "ada", {"k", UNKNOWN, "bob"}, "the run is ada's"}, /* a key of something else */
        /* The run has a token: no name helps. */
        {"", "k", "ada", {"k", UNKNOWN, "bob"}, NULL},
        {"", "k", "ada", {"", UNKNOWN, "ada"}, "a token of its own; give its --run-token-file"},
        {"", "k", "ada", {"l", ANOTHER, "ada"}, "or ask as the operator: as root"},
        {"", "k", "ada", {"", OURS, ""}, NULL},
        /* The operator has one. */
        {"o", "k", "ada", {"o", UNKNOWN, "bob"}, NULL},
        {"o", "", "ada", {"o", ANOTHER, "bob"}, NULL},
        {"o", "", "ada", {"", UNKNOWN, "bob"}, "with the --operator-token-file"},
        {"o", "", "ada", {"", UNKNOWN, "ada"}, NULL},
        {"o", "k", "ada", {"", UNKNOWN, "ada"}, "with the --operator-token-file"},
        {"o", "k", "ada", {"k", UNKNOWN, ""}, NULL},
        /* clang-format on */
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct dt_rdzv run = {.id = "llama"};
        char why[DT_WHY_MAX] = "";
        CHECK_ROW("%zu", i);
        snprintf(run.key, sizeof run.key, "%s", rows[i].run_key);
        snprintf(run.spec.user, sizeof run.spec.user, "%s", rows[i].owner);
        CHECK_EQ(dt_authority_over_run(rows[i].operator_key, &rows[i].who, &run, why, sizeof why),
                 rows[i].says == NULL);
        if (!strstr(why, rows[i].says ?: ""))
            CHECK_STR(why, rows[i].says);
    }
}

/* A line may hold a secret, so who does not say who asks is refused, too. */
TEST(what_workers_print_is_read_by_who_began_the_run_and_the_operator)
{
    static const struct {
        const char *operator_key, *run_key, *owner;
        struct dt_asker who;
        const char *says; /* NULL: it may */
    } rows[] = {
        /* clang-format off */
        {"", "", "ada", {"", UNKNOWN, "ada"}, NULL},
        {"", "", "ada", {"", UNKNOWN, "bob"}, "the run is ada's; ask as that user"},
        {"", "", "ada", {"", UNKNOWN, ""}, "who asks is not known; ask as that user, or as the operator"},
        {"", "", "ada", {"", ANOTHER, ""}, "who asks is not known"},
        {"", "", "ada", {"", OURS, ""}, NULL},
        {"", "", "", {"", UNKNOWN, ""}, NULL}, /* nobody said whose it is */
        {"", "k", "ada", {"k", UNKNOWN, ""}, NULL},
        {"", "k", "ada", {"", UNKNOWN, "ada"}, "a token of its own; give its --run-token-file"},
        {"o", "", "ada", {"o", UNKNOWN, ""}, NULL},
        {"o", "", "ada", {"l", UNKNOWN, ""}, "with the --operator-token-file"},
        /* clang-format on */
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct dt_rdzv run = {.id = "llama"};
        char why[DT_WHY_MAX] = "";
        CHECK_ROW("%zu", i);
        snprintf(run.key, sizeof run.key, "%s", rows[i].run_key);
        snprintf(run.spec.user, sizeof run.spec.user, "%s", rows[i].owner);
        CHECK_EQ(dt_authority_over_logs(rows[i].operator_key, &rows[i].who, &run, why, sizeof why),
                 rows[i].says == NULL);
        if (!strstr(why, rows[i].says ?: ""))
            CHECK_STR(why, rows[i].says);
    }
}

TEST(nodes_obey_the_operator_as_far_as_one_can_be_told)
{
    static const struct {
        const char *operator_key;
        struct dt_asker who;
        bool guarded, may;
    } rows[] = {
        {"", {"", UNKNOWN, "bob"}, false, true}, /* nobody can tell, and somebody must be able to */
        {"", {"", UNKNOWN, "bob"}, true, false},
        {"", {"", ANOTHER, "bob"}, false, false},
        {"", {"", ANOTHER, "root"}, false, false}, /* as he says */
        {"", {"", OURS, ""}, true, true},
        {"o", {"", UNKNOWN, "root"}, false, false},
        {"o", {"k", UNKNOWN, "root"}, false, false},
        {"o", {"o", UNKNOWN, ""}, true, true},
        {"o", {"o", ANOTHER, ""}, true, true},
        {"o", {"", OURS, ""}, true, true},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char why[DT_WHY_MAX] = "";
        CHECK_ROW("%zu", i);
        CHECK_EQ(dt_authority_over_nodes(rows[i].operator_key, &rows[i].who, rows[i].guarded, why,
                                         sizeof why),
                 rows[i].may);
        CHECK_EQ(strstr(why, "nodes are the operator's") != NULL, !rows[i].may);
        CHECK_EQ(strstr(why, "--operator-token-file") != NULL, !rows[i].may);
    }
}

TEST(people_are_told_why_or_else_who)
{
    static const struct {
        const char *why, *user, *says;
    } rows[] = {
        {"a new disk", "ada", "a new disk"},
        {"", "ada", "by ada"},
        {"", "", ""}, /* of a dtrun-ctl that does not tell */
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct dt_message m = {.type = DT_MSG_PAUSE, .why = rows[i].why, .user = rows[i].user};
        char why[DT_WHY_MAX];
        CHECK_STR(dt_authority_reason(&m, why, sizeof why), rows[i].says);
    }
}

TEST(those_whose_work_ends_are_told_who_and_why)
{
    static const struct {
        const char *why, *user, *says;
    } rows[] = {
        {"a demo", "ada", "by ada: a demo"},
        {"", "ada", "by ada"},
        {"a demo", "", "a demo"}, /* of a dtrun-ctl that does not tell */
        {"", "", ""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct dt_message m = {.type = DT_MSG_STOP_RUN, .why = rows[i].why, .user = rows[i].user};
        char says[DT_WHY_MAX];
        CHECK_STR(dt_authority_signature(&m, says, sizeof says), rows[i].says);
    }
}
