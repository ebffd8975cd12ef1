/* SPDX-License-Identifier: Apache-2.0 */
/* What a look at C code prints, and what the stance of a worker says of it. */
#include "agent/hang/native_place.h"
#include "tests/lib/check.h"

#define LOOK(more) "[{\"refused\":null,\"processes\":[" more "]}]\n"
#define WORKER(threads) "{\"pid\":7,\"no_native\":null,\"threads\":[" threads "]}"
#define THREAD(tid, calls) "{\"tid\":" tid ",\"native\":[" calls "]}"
#define CALL(function, object) "{\"function\":\"" function "\",\"object\":\"" object "\"}"
#define MAIN(calls) LOOK(WORKER(THREAD("7", calls)))
#define LACKS "no calls of C code: "

static struct dt_stance tell(const char *text, struct dt_stance before)
{
    dt_native_place_tell(dt_bytes_of(text), 7, &before);
    return before;
}

TEST(a_program_in_c_stands_in_its_innermost_function)
{
    static const struct {
        const char *text, *function, *detail;
    } rows[] = {
        {MAIN(CALL("step", "train") "," CALL("main", "train")), "step", ""},
        {MAIN(CALL("__read", "libc.so.6") "," CALL("load", "libdata.so") "," CALL("main", "train")),
         "load", ""},
        {MAIN(CALL("", "train") "," CALL("main", "train")), "main", ""},
        {MAIN(CALL("clone3", "libc.so.6")), "clone3", ""},
        /* Other threads and other processes say nothing of it. */
        {LOOK(WORKER(THREAD("null", CALL("a", "x")) "," THREAD("8", CALL("b", "x")) "," THREAD(
             "7", CALL("c", "x")))),
         "c", ""},
        {LOOK("{\"pid\":6,\"threads\":[" THREAD("6", CALL("sh", "sh")) "]}," WORKER(
             THREAD("7", CALL("c", "x")))),
         "c", ""},
        /* Where nothing is known, there is a reason. */
        {LOOK("{\"pid\":7,\"no_native\":\"it takes too long\",\"threads\":[{\"tid\":7}]}"), "",
         LACKS "it takes too long"},
        {"[{\"refused\":\"allow it\",\"processes\":[" WORKER("{\"tid\":7}") "]}]", "",
         LACKS "allow it"},
        {MAIN(""), "", LACKS "the kernel or a debugger does not let us stop its threads"},
        {LOOK(""), "", LACKS "the process is gone"},
        {"[\n]\n", "", LACKS "the process is gone"},
        {"dtrun: --native takes libdw\n[\n]\n", "", LACKS "dtrun: --native takes libdw"},
        {"[{\"processes\":[", "", LACKS "reading them takes too long"},
        {"", "", LACKS "reading them takes too long"},
        {"[1,\"x\"]", "", LACKS "the process is gone"},
        {"[{\"processes\":[7,{\"pid\":7,\"threads\":{}}]}]", "",
         LACKS "the kernel or a debugger does not let us stop its threads"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct dt_stance s = tell(rows[i].text, (struct dt_stance){.doing = DT_DOING_SLEEP});
        CHECK_STR(s.function, rows[i].function);
        CHECK_STR(s.detail, rows[i].detail);
    }
}

TEST(a_place_in_python_stays_and_its_c_code_is_a_detail)
{
    const char *text = MAIN(CALL("c10d::wait", "libtorch_cpu.so"));
    struct dt_stance s = tell(text, (struct dt_stance){.where = "train.py:3", .function = "load"});
    CHECK_STR(s.function, "load");
    CHECK_STR(s.detail, "in c10d::wait of libtorch_cpu.so");
    s = tell(text, (struct dt_stance){.function = "section forward", .detail = "holds the GIL"});
    CHECK_STR(s.function, "section forward");
    CHECK_STR(s.detail, "holds the GIL, in c10d::wait of libtorch_cpu.so");
}

TEST(text_without_an_end_is_cut)
{
    char text[2048];
    memset(text, 'x', sizeof text);
    text[sizeof text - 2] = '\n';
    text[sizeof text - 1] = '\0';
    struct dt_stance s = {0};
    memset(s.detail, 'y', sizeof s.detail - 1);
    s = tell(text, s);
    CHECK_EQ(strlen(s.detail), sizeof s.detail - 1);
    CHECK(strstr(s.detail, "y, " LACKS "xxx") != NULL);
}
