/* SPDX-License-Identifier: Apache-2.0 */
/* See flags.h. Every refusal names the option, the word that was given and what would do. */
#include "bench/flags.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct flag *find(const struct flag *table, const char *name, size_t len)
{
    for (const struct flag *row = table; row->name; row++)
        if (strlen(row->name) == len && memcmp(row->name, name, len) == 0)
            return row;
    return NULL;
}

static int set_choice(const struct flag *row, const char *word, int *to, struct fail *f)
{
    char list[160] = "";
    for (int i = 0; row->choices[i]; i++) {
        if (strcmp(row->choices[i], word) == 0) {
            *to = i;
            return 0;
        }
        size_t used = strlen(list);
        snprintf(list + used, sizeof(list) - used, "%s%s", i ? ", " : "", row->choices[i]);
    }
    return fail_set(f, FAIL_USAGE, "--%s: \"%s\" is none of %s.", row->name, word, list);
}

static int set_count(const struct flag *row, const char *word, unsigned long *to, struct fail *f)
{
    char *end;
    errno = 0;
    unsigned long v = strtoul(word, &end, 10);
    if (*word < '0' || *word > '9' || *end != '\0' || errno || v < row->min || v > row->max)
        return fail_set(f, FAIL_USAGE, "--%s: \"%s\" is not a number from %lu to %lu.", row->name,
                        word, row->min, row->max);
    *to = v;
    return 0;
}

static int set_time(const struct flag *row, const char *word, double *to, struct fail *f)
{
    char *end;
    double v = strtod(word, &end);
    if (end == word || *end != '\0' || !(v >= (double)row->min && v <= (double)row->max))
        return fail_set(f, FAIL_USAGE, "--%s: \"%s\" is not a time from %lu to %lu seconds.",
                        row->name, word, row->min, row->max);
    *to = v;
    return 0;
}

static int set(const struct flag *row, const char *word, void *options, struct fail *f)
{
    void *to = (char *)options + row->at;
    switch (row->kind) {
    case FLAG_WORD:
        *(const char **)to = word;
        return 0;
    case FLAG_CHOICE:
        return set_choice(row, word, to, f);
    case FLAG_COUNT:
        return set_count(row, word, to, f);
    case FLAG_TIME:
        return set_time(row, word, to, f);
    }
    return -1;
}

static void print_help(const struct flag *table, const char *usage)
{
    printf("%s\n", usage);
    for (const struct flag *row = table; row->name; row++) {
        printf("  --%-12s %s", row->name, row->help);
        for (int i = 0; row->choices && row->choices[i]; i++)
            printf("%s%s", i ? "|" : ": ", row->choices[i]);
        printf("\n");
    }
}

int flags_parse(const struct flag *table, int argc, char **argv, void *options,
                const char **positional, const char *usage, struct fail *f)
{
    *positional = NULL;
    for (int i = 1; i < argc; i++) {
        const char *word = argv[i];
        if (strcmp(word, "--help") == 0) {
            print_help(table, usage);
            return 1;
        }
        if (strncmp(word, "--", 2) != 0) {
            if (*positional)
                return fail_set(f, FAIL_USAGE, "\"%s\" is one word too many.", word);
            *positional = word;
            continue;
        }
        size_t len = strcspn(word + 2, "=");
        const struct flag *row = find(table, word + 2, len);
        if (!row)
            return fail_set(f, FAIL_USAGE, "%s is no option; --help lists them.", word);
        const char *value = word[2 + len] == '=' ? word + 2 + len + 1 : argv[++i];
        if (!value)
            return fail_set(f, FAIL_USAGE, "%s needs a value.", word);
        if (set(row, value, options, f) < 0)
            return -1;
    }
    return 0;
}
