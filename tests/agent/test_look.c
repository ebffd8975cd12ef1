/* SPDX-License-Identifier: Apache-2.0 */
/* Looks at a real CPython that stands where its script says. */
#include "agent/look/print.h"
#include "tests/agent/look_script.h"

#include <sched.h>

/* "inner:3 < outer:5 < <module>:6" of thread NUMBER. */
static const char *stack_of(const struct dt_look *look, size_t number)
{
    static char text[16384];
    size_t n = 0;
    CHECK(look->len >= 1);
    CHECK_STR(look->at[0].unreadable, "");
    CHECK(number < look->at[0].process.len);
    const struct dt_python_thread *t =
        dt_look_stack_of(&look->at[0], &look->at[0].process.tasks[number]);
    CHECK(t != NULL);
    CHECK_STR(t->unreadable, "");
    text[0] = '\0';
    for (size_t i = 0; i < t->depth && n < sizeof text - 200; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%s:%d", i ? " < " : "",
                              t->frames[i].function, t->frames[i].line);
    return text;
}

TEST(a_stack_is_read_where_the_script_stands)
{
    /* clang-format off */
    const struct { const char *story, *script, *stack; size_t thread; } rows[] = {
        {"it sleeps",
         "import os\n"
         "def inner():\n"
         "    os.write(1, b'x'), os.read(0, 1)\n"
         "def outer():\n"
         "    inner()\n"
         "outer()\n", "inner:3 < outer:5 < <module>:6", 0},
        {"it spins and holds the lock of all Python",
         "import os\n"
         "def spin():\n"
         "    n = 0; os.write(1, b'x')\n"
         "    while True: n += 1\n"
         "def outer():\n"
         "    spin()\n"
         "outer()\n", "spin:4 < outer:6 < <module>:7", 0},
        {"C code between calls back",
         "import os\n"
         "def key(x):\n"
         "    os.write(1, b'x'), os.read(0, 1)\n"
         "def outer():\n"
         "    list(map(key, [1]))\n"
         "sorted([1], key=lambda x: outer())\n", "key:3 < outer:5 < <lambda>:6 < <module>:6", 0},
        {"generators",
         "import os\n"
         "def one():\n"
         "    os.write(1, b'x'), os.read(0, 1)\n"
         "    yield 1\n"
         "def all():\n"
         "    yield from one()\n"
         "for i in all():\n"
         "    pass\n", "one:3 < all:6 < <module>:7", 0},
        {"coroutines",
         "import os\n"
         "async def wait():\n"
         "    os.write(1, b'x'), os.read(0, 1)\n"
         "async def main():\n"
         "    await wait()\n"
         "main().send(None)\n", "wait:3 < main:5 < <module>:6", 0},
        {"methods, nested functions and other letters",
         "import os\n"
         "class Läufer:\n"
         "    def größe(self):\n"
         "        def 長さ():\n"
         "            os.write(1, b'x'), os.read(0, 1)\n"
         "        長さ()\n"
         "Läufer().größe()\n",
         has_qualified_names ? "Läufer.größe.<locals>.長さ:5 < Läufer.größe:6 < <module>:7"
                             : "長さ:5 < größe:6 < <module>:7", 0},
        {"a thread that waits for a lock",
         "import os, threading, _thread\n"
         "lock = threading.Lock()\n"
         "lock.acquire()\n"
         "def wait():\n"
         "    os.write(1, b'x'), lock.acquire()\n"
         "_thread.start_new_thread(wait, ())\n"
         "os.read(0, 1)\n", "wait:5", 1},
    };
    /* clang-format on */
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("%s", rows[i].story);
        struct script s;
        struct dt_look look;
        struct dt_err err;
        start(&s, rows[i].script);
        const char *found = "";
        /* A script that spins may still be at its write. */
        for (int tries = 0; tries < 100000 && strcmp(found, rows[i].stack) != 0; tries++) {
            CHECK_OK(dt_look_at(&look, s.pid, &err), err);
            found = stack_of(&look, rows[i].thread);
            dt_look_finish(&look);
        }
        CHECK_STR(found, rows[i].stack);
        end(&s);
    }
}

/* They would leave no room for a libpython, which comes behind them. */
TEST(modules_are_no_images_of_python)
{
    struct script s;
    struct dt_look_image images[DT_LOOK_IMAGES_MAX];
    start(&s, "import os, _bz2, _ctypes, _lzma, mmap, readline\n"
              "os.write(1, b'x'), os.read(0, 1)\n");
    int count = dt_look_images(s.pid, images);
    CHECK(count > 0);
    for (int i = 0; i < count; i++)
        CHECK(strstr(images[i].name, ".cpython-") == NULL);
    end(&s);
}

TEST(a_collection_of_garbage_is_seen)
{
    struct script s;
    struct dt_look look;
    struct dt_err err;
    char byte;
    start(&s, "import os, gc\n"
              "def wait(phase, info):\n"
              "    if phase == 'start': os.write(1, b'x'), os.read(0, 1)\n"
              "os.write(1, b'x'), os.read(0, 1)\n"
              "gc.callbacks.append(wait)\n"
              "gc.collect()\n");
    CHECK_OK(dt_look_at(&look, s.pid, &err), err);
    CHECK(!look.at[0].stacks.collecting);
    uint32_t python = look.at[0].python;
    dt_look_finish(&look);
    CHECK(write(s.in, "x", 1) == 1 && read(s.out, &byte, 1) == 1);
    CHECK_OK(dt_look_at(&look, s.pid, &err), err);
    CHECK_EQ(look.at[0].stacks.collecting, python >= 0x03090000);
    dt_look_finish(&look);
    end(&s);
}

TEST(a_deep_stack_is_cut_outside)
{
    struct script s;
    struct dt_look look;
    struct dt_err err;
    start(&s, "import os\n"
              "def deep(n):\n"
              "    if n: deep(n - 1)\n"
              "    else: os.write(1, b'x'), os.read(0, 1)\n"
              "deep(600)\n");
    CHECK_OK(dt_look_at(&look, s.pid, &err), err);
    const struct dt_python_thread *t = dt_look_stack_of(&look.at[0], look.at[0].process.tasks);
    CHECK(t != NULL && t->deeper && !t->changing);
    CHECK_EQ(t->depth, DT_PYTHON_DEPTH_MAX);
    CHECK_EQ(t->frames[0].line, 4);
    CHECK_EQ(t->frames[t->depth - 1].line, 3);
    struct dt_buf text = {0};
    dt_look_print(&look, &text);
    CHECK(strstr(dt_buf_cstr(&text), "    deep  <string>:3 (255 times)\n") != NULL);
    CHECK(strstr(dt_buf_cstr(&text), "    (more than 256 calls;") != NULL);
    dt_buf_finish(&text);
    dt_look_finish(&look);
    end(&s);
}

TEST(of_a_stack_that_changes_what_stays_is_told)
{
    struct script s;
    struct dt_look look;
    struct dt_err err;
    start(&s, "import os\n"
              "def a(n):\n"
              "    if n: a(n - 1); b(n - 1)\n"
              "def b(n):\n"
              "    if n: b(n - 1); a(n - 1)\n"
              "def loop():\n"
              "    os.write(1, b'x')\n"
              "    while True: a(9)\n"
              "loop()\n");
    for (int i = 0; i < 200; i++) {
        CHECK_OK(dt_look_at(&look, s.pid, &err), err);
        const struct dt_python_thread *t = dt_look_stack_of(&look.at[0], look.at[0].process.tasks);
        CHECK(t != NULL);
        if (t->depth > 0)
            CHECK_STR(t->frames[t->depth - 1].function, "<module>");
        else
            CHECK(t->unreadable[0] != '\0');
        dt_look_finish(&look);
    }
    end(&s);
}

/* Names of files are what a script makes of them. */
TEST(what_would_steer_a_terminal_is_shown)
{
    struct script s;
    struct dt_look look;
    struct dt_err err;
    struct dt_buf text = {0};
    start(&s, "import os\n"
              "exec(compile(\"os.write(1, b'x'), os.read(0, 1)\", 'a\\x1b[31m\\n.py', 'exec'))\n");
    CHECK_OK(dt_look_at(&look, s.pid, &err), err);
    dt_look_print(&look, &text);
    CHECK(strstr(dt_buf_cstr(&text), ": <module> a\\x1b[31m\\x0a.py:1 < <module> <string>:2\n"));
    CHECK(strchr(dt_buf_cstr(&text), '\x1b') == NULL);
    dt_buf_clear(&text);
    struct dt_json_writer json = {.out = &text, .style = DT_JSON_SPACED};
    dt_look_put_json(&look, &json);
    CHECK(strstr(dt_buf_cstr(&text),
                 "\"function\": \"<module>\", \"file\": \"a\\u001b[31m\\n.py\", "
                 "\"line\": 1"));
    dt_buf_finish(&text);
    dt_look_finish(&look);
    end(&s);
}

TEST(a_tree_is_seen_and_what_is_alike_stands_together)
{
    struct script s;
    struct dt_look look;
    struct dt_err err;
    struct dt_buf text = {0};
    start(&s, "import os\n"
              "def work():\n"
              "    os.write(1, b'x'), os.read(0, 1)\n"
              "def main():\n"
              "    if os.fork() * os.fork() == 0:\n"
              "        work()\n"
              "    os.wait()\n"
              "main()\n");
    char byte;
    CHECK_EQ(read(s.out, &byte, 1), 1);
    CHECK_EQ(read(s.out, &byte, 1), 1);
    CHECK_OK(dt_look_at(&look, s.pid, &err), err);
    CHECK_EQ(look.len, 4);
    dt_look_print(&look, &text);
    CHECK(strstr(dt_buf_cstr(&text), ": work <string>:3 < main <string>:6 < "));
    const char *at = strstr(dt_buf_cstr(&text), " (and ");
    CHECK(at != NULL && strstr(at + 1, " (and ") == NULL);
    dt_buf_finish(&text);
    for (size_t i = look.len; i-- > 1;)
        kill(look.at[i].process.pid, SIGKILL);
    dt_look_finish(&look);
    end(&s);
}

TEST(what_is_no_python_shows_what_the_kernel_says)
{
    struct script s;
    struct dt_look look;
    struct dt_err err;
    struct dt_buf text = {0};
    char *argv[] = {(char[]){"/bin/cat"}, NULL};
    start_program(&s, argv);
    char byte;
    CHECK(write(s.in, "x", 1) == 1 && read(s.out, &byte, 1) == 1);
    CHECK_OK(dt_look_at(&look, s.pid, &err), err);
    CHECK_EQ(look.len, 1);
    CHECK_EQ(look.at[0].python, 0);
    CHECK_STR(look.at[0].unreadable, "");
    CHECK_STR(look.at[0].process.name, "cat");
    CHECK_EQ(look.at[0].process.len, 1);
    dt_look_print(&look, &text);
    CHECK(strstr(dt_buf_cstr(&text), " s CPU\n"));
    /* It has written, and will soon be asleep in its next read. */
    do {
        dt_look_finish(&look);
        CHECK_OK(dt_look_at(&look, s.pid, &err), err);
        dt_buf_clear(&text);
        dt_look_print(&look, &text);
    } while (!strstr(dt_buf_cstr(&text), "    waits for descriptor 0: pipe:["));
    dt_buf_clear(&text);
    struct dt_json_writer json = {.out = &text, .style = DT_JSON_SPACED};
    dt_look_put_json(&look, &json);
    CHECK(strstr(dt_buf_cstr(&text), "\"kind\": \"pipe\", \"name\": \"pipe:["));
    dt_buf_finish(&text);
    dt_look_finish(&look);
    end(&s);
    CHECK_FAIL(dt_look_at(&look, s.pid, &err), err, "there is no process");
}

/* Before 3.11, with a C library that we do not know. */
TEST(a_stack_of_a_thread_that_is_not_known_is_shown)
{
    struct dt_python_frame frame = {.file = "/srv/train.py", .function = "wait", .line = 7};
    struct dt_python_thread threads[] = {{.depth = 0}, {.frames = &frame, .depth = 1}};
    struct dt_look_task task = {
        .tid = 812, .inner = 812, .state = 'S', .call.number = DT_LOOK_NO_SYSCALL};
    struct dt_look_entry entry = {
        .process = {.pid = 812, .name = "python3.8", .tasks = &task, .len = 1},
        .python = 0x03080000,
        .stacks = {.at = threads, .len = 2},
    };
    struct dt_look look = {.at = &entry, .len = 1, .memory.limit = -1};
    struct dt_buf text = {0};
    dt_look_print(&look, &text);
    CHECK_STR(dt_buf_cstr(&text), "pid 812 python3.8: wait train.py:7\n"
                                  "  one of the threads below\n"
                                  "    wait  /srv/train.py:7\n"
                                  "  thread 812 sleeps, 0.00 s CPU\n");
    dt_buf_clear(&text);
    struct dt_json_writer json = {.out = &text, .style = DT_JSON_SPACED};
    dt_look_put_json(&look, &json);
    CHECK(strstr(dt_buf_cstr(&text), "\"python\": \"3.8\"") != NULL);
    CHECK(strstr(dt_buf_cstr(&text), "{\"tid\": null, \"unreadable\": null, ") != NULL);
    CHECK(strstr(dt_buf_cstr(&text), "\"function\": \"wait\"") != NULL);
    dt_buf_finish(&text);
}

/* In a child that has become NOBODY. */
static int look_as_nobody(pid_t pid)
{
    struct dt_look look;
    struct dt_err err;
    struct dt_buf text = {0};
    if (setgid(65534) < 0 || setuid(65534) < 0 || dt_look_at(&look, pid, &err) < 0 || look.len != 2)
        return 2;
    bool told = true;
    for (size_t i = 0; i < look.len; i++)
        told = told && strcmp(look.at[i].unreadable, "the kernel refuses it") == 0 &&
               look.at[i].process.len == 1;
    dt_look_print(&look, &text);
    const char *once = strstr(dt_buf_cstr(&text), "To read what the kernel refuses:\n  look as ");
    told = told && once && !strstr(once + 1, "To read");
    dt_buf_finish(&text);
    dt_look_finish(&look);
    return told ? 0 : 1;
}

/* In a child that has become root of a namespace of its own; 77: it may not. */
static int look_in_namespace(void)
{
    struct script s;
    struct dt_look look;
    struct dt_err err;
    if (unshare(CLONE_NEWUSER) < 0)
        return 77;
    start(&s, SLEEPER);
    bool well = dt_look_at(&look, s.pid, &err) == 0 && look.len == 1 && !look.refused[0] &&
                look.at[0].stacks.len == 1 && look.at[0].stacks.at[0].depth == 2;
    dt_look_finish(&look);
    end(&s);
    return well ? 0 : 1;
}

TEST(a_user_namespace_is_no_obstacle)
{
    int status;
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0)
        _exit(look_in_namespace());
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77)
        SKIP("the kernel allows no user namespace");
    CHECK_EQ(WEXITSTATUS(status), 0);
}

TEST(another_users_process_says_what_to_do)
{
    struct script s;
    int status;
    if (geteuid() != 0)
        SKIP("only root can become another user");
    start(&s, "import os\n"
              "if os.fork() == 0: os.write(1, b'x'), os.read(0, 1), os._exit(0)\n"
              "os.wait()\n");
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0)
        _exit(look_as_nobody(s.pid));
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK_EQ(status, 0);
    end(&s);
}
