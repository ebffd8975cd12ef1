/* SPDX-License-Identifier: Apache-2.0 */
/* Stories of simulated clusters, each made up from its seed, and the test of that test: bugs that
 * were planted on purpose are found.
 *
 * Without an option it is the tests, as TAP; --help names the options.
 *
 * DT_SIM_SHARE in the environment is how many percent of the full count the tests run. */
#include "tests/lib/sim/sim.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SEEDS 60000
#define BIG_SEEDS 30
#define BIG_NODES 10000
#define PLANT_SEEDS 10000 /* within so many each planted bug is found */
#define TWICE_SEEDS 50
#define USUAL_PERCENT 10 /* of all that, without DT_SIM_SHARE */
#define BROKEN_MAX 5     /* stories that are shown */

struct wishes {
    uint64_t from, to; /* TO is not in it */
    uint32_t nodes;
    enum sim_plant plant;
    bool trace;
};

static bool report(int number, bool ok, const char *what, const char *name)
{
    printf("%sok %d - %s%s\n", ok ? "" : "not ", number, what, name);
    fflush(stdout);
    return ok;
}

/* Runs one story. False: a rule was broken, and *RULE says which. */
static bool tell(const struct wishes *w, uint64_t seed, enum sim_rule *rule, bool quiet)
{
    struct sim s;
    sim_run(&s, &(struct sim_options){
                    .seed = seed, .nodes = w->nodes, .plant = w->plant, .tracing = w->trace});
    bool ok = !s.judge.failed;
    *rule = s.judge.rule;
    if (!ok && !quiet) {
        FILE *const both[] = {stdout,
                              stderr}; /* some runners show nothing of a TAP program's stdout */
        for (size_t i = 0; i < sizeof both / sizeof *both; i++)
            fprintf(both[i], "# seed %" PRIu64 ", at %.3f s: %s: %s\n", seed,
                    (double)s.now / DT_SECOND, sim_rule_name(s.judge.rule), s.judge.text);
        printf("# see it all: test_sim --seed %" PRIu64 " --trace", seed);
        if (w->nodes)
            printf(" --nodes %u", w->nodes);
        if (w->plant)
            printf(" --planted %s", sim_plants[w->plant].name);
        putchar('\n');
    }
    sim_finish(&s);
    return ok;
}

static bool tell_all(const struct wishes *w)
{
    enum sim_rule rule;
    int broken = 0;
    for (uint64_t seed = w->from; seed < w->to && broken < BROKEN_MAX; seed++)
        broken += !tell(w, seed, &rule, false);
    return broken == 0;
}

/* Where the random numbers of a story are when it ends, which tells it from any other. */
static uint64_t last_word(uint64_t seed)
{
    struct sim s;
    sim_run(&s, &(struct sim_options){.seed = seed});
    uint64_t word = s.random ^ s.events;
    sim_finish(&s);
    return word;
}

static bool tell_twice(void)
{
    for (uint64_t seed = 0; seed < TWICE_SEEDS; seed++)
        if (last_word(seed) != last_word(seed)) {
            printf("# seed %" PRIu64 " is another story the second time\n", seed);
            return false;
        }
    return true;
}

/* Whether the rule that a planted bug breaks is seen to be broken. */
static bool find_plant(enum sim_plant plant)
{
    struct wishes w = {.plant = plant};
    enum sim_rule rule;
    for (uint64_t seed = 0; seed < PLANT_SEEDS; seed++)
        if (!tell(&w, seed, &rule, true) && rule == sim_plants[plant].breaks) {
            printf("# %s: found by seed %" PRIu64 "\n", sim_plants[plant].name, seed);
            return true;
        }
    return false;
}

static bool tell_amnesia(uint64_t seed, const struct sim_amnesia *how)
{
    struct sim s;
    sim_run(&s, &(struct sim_options){.seed = seed, .amnesia = *how});
    if (!s.judge.failed && s.judge.now.restarts != sim_amnesia_restarts(how))
        sim_judge_fail(&s, SIM_RULE_BUDGET, "%d restarts were charged, and not %d",
                       s.judge.now.restarts, sim_amnesia_restarts(how));
    bool ok = !s.judge.failed;
    if (!ok)
        printf("# %s, and the server is killed %+" PRId64 " ms later, seed %" PRIu64 ": %s\n",
               sim_amnesia_name(how->cause), how->after, seed, s.judge.text);
    sim_finish(&s);
    return ok;
}

/* A server without a folder for its state that is killed at any moment of what ends a round, in
 * SEEDS stories each. */
static bool tell_all_amnesia(uint64_t seeds)
{
    int broken = 0;
    for (int cause = SIM_AMNESIA_NONE + 1; cause < SIM_AMNESIA_CAUSES; cause++)
        for (dt_ms after = -200; after < 12 * DT_SECOND; after += after < 200 ? 1 : 97)
            for (uint64_t seed = 0; seed < seeds && broken < BROKEN_MAX; seed++)
                broken += !tell_amnesia(
                    seed, &(struct sim_amnesia){(enum sim_amnesia_cause)cause, after});
    return broken == 0;
}

__attribute__((noreturn)) static void refuse(const char *option, const char *got, const char *want)
{
    fprintf(stderr, "test_sim: %s \"%s\": give %s\n", option, got, want);
    exit(2);
}

/* The number that TEXT begins with, up to MOST; *END is behind it. False: there is none. */
static bool read_number(const char *text, uint64_t most, const char **end, uint64_t *number)
{
    char *stop;
    if (*text < '0' || *text > '9')
        return false;
    errno = 0;
    *number = strtoull(text, &stop, 10);
    *end = stop;
    return errno == 0 && *number <= most;
}

static uint64_t number_of(const char *option, const char *text, uint64_t most)
{
    const char *end;
    char want[64];
    uint64_t number;
    snprintf(want, sizeof want, "a number up to %" PRIu64, most);
    if (!read_number(text, most, &end, &number) || *end != '\0')
        refuse(option, text, want);
    return number;
}

static int run_tests(void)
{
    const char *share = getenv("DT_SIM_SHARE");
    uint64_t percent = share ? number_of("DT_SIM_SHARE", share, 10000) : USUAL_PERCENT;
    struct wishes small = {.to = SEEDS * percent / 100};
    struct wishes big = {.to = (BIG_SEEDS * percent + 99) / 100, .nodes = BIG_NODES};
    int test = 0;
    bool ok = true;
    printf("1..%d\n", 4 + SIM_PLANTS - 1);
    ok &= report(++test, tell_twice(), "a seed is the same story each time", "");
    ok &= report(++test, tell_all(&small), "no rule is broken in stories of up to 64 nodes", "");
    ok &= report(++test, tell_all(&big), "no rule is broken in stories of 10,000 nodes", "");
    ok &= report(++test, tell_all_amnesia(percent < USUAL_PERCENT ? 1 : 3),
                 "a server that forgets all costs nobody a restart", "");
    for (int i = SIM_PLANT_NONE + 1; i < SIM_PLANTS; i++)
        ok &= report(++test, find_plant((enum sim_plant)i), "planted: ", sim_plants[i].name);
    return ok ? 0 : 1;
}

static enum sim_plant find_plant_name(const char *name)
{
    for (int i = 0; i < SIM_PLANTS; i++)
        if (strcmp(sim_plants[i].name, name) == 0)
            return (enum sim_plant)i;
    fprintf(stderr, "test_sim: there is no planted bug \"%s\"; there are", name);
    for (int i = 1; i < SIM_PLANTS; i++)
        fprintf(stderr, " %s", sim_plants[i].name);
    fputc('\n', stderr);
    exit(2);
}

static void print_help(void)
{
    printf("usage: test_sim                                             the tests, as TAP\n"
           "       test_sim --seeds FROM:TO [--nodes N] [--planted NAME]  stories FROM to TO - 1\n"
           "       test_sim --seed N [--nodes N] [--planted NAME] [--trace]  one story, to read\n"
           "Planted bugs:");
    for (int i = SIM_PLANT_NONE + 1; i < SIM_PLANTS; i++)
        printf(" %s", sim_plants[i].name);
    putchar('\n');
}

static void read_seeds(const char *text, struct wishes *w)
{
    const char *end;
    if (!read_number(text, UINT64_MAX, &end, &w->from) || *end != ':' ||
        !read_number(end + 1, UINT64_MAX, &end, &w->to) || *end != '\0' || w->to <= w->from)
        refuse("--seeds", text, "FROM:TO, as in 0:5000 for the seeds 0 to 4999");
}

static void read_options(int argc, char **argv, struct wishes *w)
{
    static const struct option options[] = {
        {"seeds", required_argument, NULL, 's'},
        {"seed", required_argument, NULL, '1'},
        {"nodes", required_argument, NULL, 'n'},
        {"planted", required_argument, NULL, 'p'},
        {"trace", no_argument, NULL, 't'},
        {"help", no_argument, NULL, 'h'},
        {0},
    };
    w->to = 1;
    for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        switch (c) {
        case 's':
            read_seeds(optarg, w);
            break;
        case '1':
            w->from = number_of("--seed", optarg, UINT64_MAX - 1);
            w->to = w->from + 1;
            break;
        case 'n':
            w->nodes = (uint32_t)number_of("--nodes", optarg, 1u << SIM_NODE_BITS);
            break;
        case 'p':
            w->plant = find_plant_name(optarg);
            break;
        case 't':
            w->trace = true;
            break;
        case 'h':
            print_help();
            exit(0);
        default:
            exit(2);
        }
    }
    if (optind < argc)
        refuse("the word", argv[optind], "options only, see --help");
}

int main(int argc, char **argv)
{
    struct wishes w = {0};
    if (argc == 1)
        return run_tests();
    read_options(argc, argv, &w);
    printf("1..1\n");
    return report(1, tell_all(&w), "no rule is broken", "") ? 0 : 1;
}
