/* SPDX-License-Identifier: Apache-2.0 */
/* Tests that read as stories: TEST(a_name_that_says_it) { ... CHECK...(...); }, printed as TAP.
 *
 * Tests register themselves and run in the order of the file; names in argv pick some, and "2/3"
 * the second of each three, so that a long program can be several tests of meson. A failing check
 * prints where, both values and the row at hand, ends its test, and the next one starts: nothing is
 * cleaned up on that path. A test that fails while a second thread runs ends the program, as that
 * thread may use what the test had on its stack. The plan comes first, so a program that dies
 * halfway has failed. A test that checks nothing fails. Several files of one program may include
 * this. */
#ifndef DT_TESTS_CHECK_H
#define DT_TESTS_CHECK_H

#include <ctype.h>
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct check_test {
    const char *name;
    void (*run)(void);
    struct check_test *next;
};

struct check_row {
    char text[200];
    struct check_row *outer;
};

/* Weak, so that all files of one program share it. */
__attribute__((weak)) struct check_state {
    struct check_test *first, *last;
    void (*before_all)(void);
    struct check_row *row;
    char label[160];      /* of the current test: its name with spaces */
    unsigned long checks; /* that it executed */
    bool running, skipped;
    int number;
    pid_t thread; /* the one that may jump */
    int threads;  /* before the test at hand, a sanitizer's own among them */
    jmp_buf out;
} check_the;

#define TEST(story)                                                                                \
    static void story_##story(void);                                                               \
    static struct check_test test_##story = {.name = #story, .run = story_##story};                \
    __attribute__((constructor)) static void register_##story(void)                                \
    {                                                                                              \
        check_register(&test_##story);                                                             \
    }                                                                                              \
    static void story_##story(void)

/* Runs before the plan is printed: the place to SKIP() the whole program. */
#define BEFORE_ALL                                                                                 \
    static void check_before_all(void);                                                            \
    __attribute__((constructor)) static void register_before_all(void)                             \
    {                                                                                              \
        check_the.before_all = check_before_all;                                                   \
    }                                                                                              \
    static void check_before_all(void)

/* Inside a test skips it; in BEFORE_ALL skips the program. */
#define SKIP(...) check_skip(__VA_ARGS__)

/* Names the row of a table until the end of the block. */
#define CHECK_ROW(...) CHECK_ROW_AS(__COUNTER__, __VA_ARGS__)
#define CHECK_ROW_AS(n, ...) CHECK_ROW_NAMED(n, __VA_ARGS__)
#define CHECK_ROW_NAMED(n, ...)                                                                    \
    __attribute__((cleanup(check_row_pop))) struct check_row check_row_##n = {                     \
        .outer = check_row_push(&check_row_##n)};                                                  \
    check_row_name(&check_row_##n, __VA_ARGS__)

#define CHECK(cond) check_true((cond), #cond, __FILE__, __LINE__)
/* Whole numbers of any types: -1 does not equal UINT64_MAX. */
#define CHECK_EQ(a, b) check_eq(CHECK_INT(a), CHECK_INT(b), #a, #b, __FILE__, __LINE__)
#define CHECK_STR(a, b) check_str((a), (b), #a, __FILE__, __LINE__)
#define CHECK_BYTES(a, a_len, b, b_len)                                                            \
    check_bytes((a), (a_len), (b), (b_len), #a, __FILE__, __LINE__)

/* CALL answers 0 or -1 and fills the struct dt_err ERR. */
#define CHECK_OK(call, err)                                                                        \
    do {                                                                                           \
        int check_rc = (call);                                                                     \
        check_ok(check_rc, (err).text, #call, __FILE__, __LINE__);                                 \
    } while (0)
#define CHECK_FAIL(call, err, words)                                                               \
    do {                                                                                           \
        int check_rc = (call);                                                                     \
        check_fails(check_rc, (err).text, (words), #call, __FILE__, __LINE__);                     \
    } while (0)

struct check_int {
    uintmax_t bits;
    bool negative;
};

/* !(v > 0 || v == 0) is v < 0 without a warning where v is unsigned. */
#define CHECK_INT(x)                                                                               \
    __extension__({                                                                                \
        _Static_assert((__typeof__(+(x)))1 / 2 == 0, "CHECK_EQ is for whole numbers");             \
        __auto_type check_v = +(x);                                                                \
        (struct check_int){(uintmax_t)check_v, !(check_v > 0 || check_v == 0)};                    \
    })

static inline void check_register(struct check_test *t)
{
    if (check_the.last)
        check_the.last->next = t;
    else
        check_the.first = t;
    check_the.last = t;
}

static inline struct check_row *check_row_push(struct check_row *row)
{
    struct check_row *outer = check_the.row;
    check_the.row = row;
    return outer;
}

static inline void check_row_pop(struct check_row *row)
{
    check_the.row = row->outer;
}

__attribute__((format(printf, 2, 3))) static inline void check_row_name(struct check_row *row,
                                                                        const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(row->text, sizeof row->text, fmt, ap);
    va_end(ap);
}

/* Prints as a TAP comment, every line of it. */
static inline void check_say_to(FILE *out, const char *text)
{
    fputs("# ", out);
    for (; *text; text++) {
        putc(*text, out);
        if (*text == '\n' && text[1])
            fputs("# ", out);
    }
    putc('\n', out);
}

/* Some runners, meson 1.0 among them, show nothing of a TAP program's stdout: what fails is said on
 * stderr, too, unless both are the same file. */
static inline void check_say(const char *text)
{
    struct stat out, err;
    check_say_to(stdout, text);
    if (fstat(STDOUT_FILENO, &out) < 0 || fstat(STDERR_FILENO, &err) < 0 ||
        (out.st_dev == err.st_dev && out.st_ino == err.st_ino))
        return;
    fflush(stdout);
    fprintf(stderr, "%s:\n", check_the.label);
    check_say_to(stderr, text);
}

static inline int check_count_threads(void)
{
    DIR *tasks = opendir("/proc/self/task");
    int n = 0;
    if (!tasks)
        return 1;
    for (struct dirent *d; (d = readdir(tasks)) != NULL;)
        n += d->d_name[0] != '.';
    closedir(tasks);
    return n;
}

__attribute__((format(printf, 3, 4), noreturn)) static inline void
check_failed(const char *file, int line, const char *fmt, ...)
{
    char text[6000];
    size_t n = (size_t)snprintf(text, sizeof text, "%s:%d:\n", file, line);
    for (const struct check_row *row = check_the.row; row && n < 2000; row = row->outer)
        n += (size_t)snprintf(text + n, sizeof text - n, "  row: %s\n", row->text);
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text + n, sizeof text - n, fmt, ap);
    va_end(ap);
    check_say(text);
    fflush(stdout);
    /* Of a forked child or a second thread, the runner's frame is not there to return to. */
    if (!check_the.running || gettid() != check_the.thread)
        _exit(1);
    longjmp(check_the.out, 1);
}

__attribute__((format(printf, 1, 2), noreturn)) static inline void check_skip(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    if (check_the.running)
        printf("ok %d - %s # SKIP ", check_the.number, check_the.label);
    else
        fputs("1..0 # SKIP ", stdout);
    vprintf(fmt, ap);
    va_end(ap);
    putchar('\n');
    fflush(stdout);
    if (!check_the.running)
        exit(0);
    check_the.skipped = true;
    longjmp(check_the.out, 1);
}

/* TEXT in quotes, with what cannot be printed as \xNN; "NULL" without them. Cut with "..." to fit.
 */
static inline const char *check_quote(const char *text, char *out, size_t size)
{
    if (!text)
        return "NULL";
    size_t n = 0;
    out[n++] = '"';
    for (; *text && n + 10 < size; text++) {
        if (isprint((unsigned char)*text))
            out[n++] = *text;
        else if (*text == '\n')
            n += (size_t)snprintf(out + n, size - n, "\\n");
        else
            n += (size_t)snprintf(out + n, size - n, "\\x%02x", (unsigned char)*text);
    }
    snprintf(out + n, size - n, *text ? "\"..." : "\"");
    return out;
}

static inline void check_true(bool is, const char *what, const char *file, int line)
{
    check_the.checks++;
    if (!is)
        check_failed(file, line, "  not so: %s", what);
}

static inline const char *check_int_text(struct check_int v, char out[24])
{
    snprintf(out, 24, v.negative ? "%jd" : "%ju", v.bits);
    return out;
}

static inline void check_eq(struct check_int a, struct check_int b, const char *a_text,
                            const char *b_text, const char *file, int line)
{
    char x[24], y[24];
    check_the.checks++;
    if (a.bits != b.bits || a.negative != b.negative)
        check_failed(file, line, "  %s is %s\n  wanted %s: %s", a_text, check_int_text(a, x),
                     b_text, check_int_text(b, y));
}

static inline void check_str(const char *a, const char *b, const char *what, const char *file,
                             int line)
{
    char x[1500], y[1500];
    check_the.checks++;
    if (a != b && (!a || !b || strcmp(a, b) != 0))
        check_failed(file, line, "  %s is %s\n  wanted %s", what, check_quote(a, x, sizeof x),
                     check_quote(b, y, sizeof y));
}

/* Up to 24 bytes of B from FROM on. */
static inline const char *check_hex(const uint8_t *b, size_t len, size_t from, char out[80])
{
    size_t n = 0;
    for (size_t i = from; i < len && i < from + 24; i++)
        n += (size_t)snprintf(out + n, 80 - n, " %02x", b[i]);
    snprintf(out + n, 80 - n, from + 24 < len ? " .." : "");
    return out;
}

static inline void check_bytes(const void *a, size_t a_len, const void *b, size_t b_len,
                               const char *what, const char *file, int line)
{
    const uint8_t *x = a, *y = b;
    char x_text[80], y_text[80];
    size_t at = 0;
    check_the.checks++;
    while (at < a_len && at < b_len && x[at] == y[at])
        at++;
    if (at < a_len || at < b_len)
        check_failed(file, line,
                     "  %s has %zu bytes, wanted %zu; from byte %zu on\n  is    %s\n  wanted%s",
                     what, a_len, b_len, at, check_hex(x, a_len, at, x_text),
                     check_hex(y, b_len, at, y_text));
}

static inline void check_ok(int rc, const char *text, const char *what, const char *file, int line)
{
    check_the.checks++;
    if (rc != 0)
        check_failed(file, line, "  %s answered %d\n  error: %s", what, rc, text);
}

static inline void check_fails(int rc, const char *text, const char *words, const char *what,
                               const char *file, int line)
{
    check_the.checks++;
    if (rc == 0)
        check_failed(file, line, "  %s went well\n  wanted an error with \"%s\"", what, words);
    if (!strstr(text, words))
        check_failed(file, line, "  %s\n  error: %s\n  wanted \"%s\" in it", what, text, words);
}

static inline void check_set_label(const struct check_test *t)
{
    snprintf(check_the.label, sizeof check_the.label, "%s", t->name);
    for (char *c = check_the.label; *c; c++)
        if (*c == '_')
            *c = ' ';
}

static inline bool check_run_one(const struct check_test *t)
{
    check_set_label(t);
    check_the.checks = 0;
    check_the.row = NULL;
    check_the.skipped = false;
    check_the.number++;
    check_the.threads = check_count_threads();
    bool failed = setjmp(check_the.out) != 0;
    if (!failed) {
        check_the.running = true;
        t->run();
    }
    check_the.running = false;
    if (check_the.skipped)
        return true;
    if (!failed && check_the.checks == 0)
        check_say("asserts nothing");
    failed = failed || check_the.checks == 0;
    printf("%sok %d - %s\n", failed ? "not " : "", check_the.number, check_the.label);
    fflush(stdout);
    if (failed && check_count_threads() > check_the.threads) {
        printf("Bail out! \"%s\" has left a thread running, and what comes after is not run\n",
               check_the.label);
        fflush(stdout);
        _exit(1);
    }
    return !failed;
}

/* SHARE: "2/3", and PLACE, from 0 on, is that of the second of three, or the fifth of six. */
static inline bool check_in_share(const char *share, int place)
{
    int which = 0, of = 0, end = 0;
    return sscanf(share, "%d/%d%n", &which, &of, &end) == 2 && !share[end] && of > 0 &&
           place % of == which - 1;
}

static inline bool check_wanted(const struct check_test *t, int place, char **names)
{
    check_set_label(t);
    for (char **n = names; *n; n++)
        if (strcmp(*n, t->name) == 0 || strcmp(*n, check_the.label) == 0 ||
            check_in_share(*n, place))
            return true;
    return !*names;
}

__attribute__((weak)) int main(int argc, char **argv)
{
    int planned = 0, failures = 0, place = 0;
    (void)argc;
    setvbuf(stdout, NULL, _IOLBF, 0); /* a crash or a fork must find nothing half-written */
    check_the.thread = gettid();
    if (check_the.before_all)
        check_the.before_all();
    for (struct check_test *t = check_the.first; t; t = t->next)
        planned += check_wanted(t, place++, argv + 1);
    if (planned == 0) {
        fprintf(stderr, "no test of that name\n");
        return 2;
    }
    printf("1..%d\n", planned);
    place = 0;
    for (struct check_test *t = check_the.first; t; t = t->next)
        if (check_wanted(t, place++, argv + 1))
            failures += !check_run_one(t);
    return failures != 0;
}

#endif
