/* SPDX-License-Identifier: Apache-2.0 */
/* A plugin is looked for once per process, so each story asks another process: this program again,
 * which with DT_TELL=KIND,LOCAL_RANK in its environment opens a device and tells what it got; as
 * KIND "memory" asks for that of so many workers' GPUs; as KIND "libraries" opens an "auto" one and
 * tells which files of CUDA, and of a plugin, are in its memory. */
#include "base/buf.h"
#include "base/fs.h"
#include "tests/lib/check.h"
#include "worker_runtime/device/device.h"
#include "worker_runtime/device/cuda_plugin.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <sys/stat.h>
#include <sys/wait.h>

static void tell_memory(int workers)
{
    struct dt_gpu_memory m;
    struct dt_err err = {0};
    int gpus = dt_device_gpu_memory(workers, &m, &err);
    if (gpus < 0)
        printf("%s", err.text);
    else
        printf("%d: %s, %zu of %zu free", gpus, m.name, m.free, m.total);
    exit(gpus < 0 ? dt_err_exit_status(&err) : 0);
}

static void tell_libraries(void)
{
    static const char *const cuda[] = {"libcublas", "libcudart", "libnccl", "libdt_cuda"};
    struct dt_device_wish w = {.kind = "auto", .threads = 1, .local_world = 1};
    struct dt_err err = {0};
    char line[PATH_MAX + 128];
    int found = 0;
    struct dt_device *d = dt_device_open(&w, &err);
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof line, maps))
        for (size_t i = 0; i < sizeof cuda / sizeof *cuda; i++)
            if (strstr(line, cuda[i]) && found++ == 0)
                printf("%s", line);
    printf("%d of CUDA; %s", found, d ? d->description : err.text);
    exit(d && maps ? 0 : 1);
}

static void tell(const char *wanted)
{
    char kind[16] = "";
    struct dt_device_wish w = {.kind = kind, .threads = 1, .local_world = 3};
    struct dt_err err = {0};
    if (sscanf(wanted, "%15[^,],%d", kind, &w.local_rank) != 2)
        exit(3);
    if (strcmp(kind, "memory") == 0)
        tell_memory(w.local_rank);
    if (strcmp(kind, "libraries") == 0)
        tell_libraries();
    struct dt_device *d = dt_device_open(&w, &err);
    printf("%s", d ? d->description : err.text);
    dt_device_close(d);
    exit(d ? 0 : dt_err_exit_status(&err));
}

static char dir[64];

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    (void)st;
    (void)kind;
    (void)at;
    return remove(path);
}

static void remove_dir(void)
{
    nftw(dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

BEFORE_ALL
{
    if (getenv("DT_TELL"))
        tell(getenv("DT_TELL"));
    strcpy(dir, "/tmp/dtrun-test-plugin.XXXXXX");
    if (!mkdtemp(dir))
        SKIP("no folder can be made in /tmp");
    atexit(remove_dir);
    unsetenv("DTRUN_CUDA_PLUGIN");
    unsetenv("LD_LIBRARY_PATH"); /* where meson shows the way to what the test depends on */
}

struct told {
    int status;
    char text[1024];
};

struct asked {
    const char *kind, *plugin, *program, *folder, *libraries;
    int local_rank;
};

static void become(const struct asked *a, int out)
{
    char wanted[32];
    snprintf(wanted, sizeof wanted, "%s,%d", a->kind, a->local_rank);
    setenv("DT_TELL", wanted, 1);
    if (a->plugin)
        setenv("DTRUN_CUDA_PLUGIN", a->plugin, 1);
    if (a->libraries)
        setenv("LD_LIBRARY_PATH", a->libraries, 1);
    dup2(out, STDOUT_FILENO);
    const char *program = a->program ? a->program : "/proc/self/exe";
    if (!a->folder || chdir(a->folder) == 0)
        execl(program, program, (char *)NULL);
    _exit(126);
}

static struct told ask_as(const struct asked *a)
{
    struct told t = {.status = -1};
    int ends[2];
    CHECK(pipe2(ends, O_CLOEXEC) == 0);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0)
        become(a, ends[1]);
    close(ends[1]);
    size_t used = 0;
    for (ssize_t n; used < sizeof t.text - 1 &&
                    (n = read(ends[0], t.text + used, sizeof t.text - 1 - used)) > 0;)
        used += (size_t)n;
    close(ends[0]);
    int status;
    CHECK(waitpid(pid, &status, 0) == pid);
    if (WIFEXITED(status))
        t.status = WEXITSTATUS(status);
    return t;
}

#define ask(...) ask_as(&(struct asked){.kind = __VA_ARGS__})

static void check_told(struct told t, int status, const char *words)
{
    CHECK_ROW("told: %.180s", t.text);
    CHECK_EQ(t.status, status);
    CHECK(strstr(t.text, words));
}

static const char *fake(const char *name)
{
    static char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/libplugin_%s.so", getenv("DT_FAKE_PLUGINS"), name);
    return path;
}

static const char *fake_driver(const char *name)
{
    static char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/libdriver_%s.so", getenv("DT_FAKE_PLUGINS"), name);
    return path;
}

static void copy_file(const char *from, const char *to)
{
    struct dt_buf bytes = {0};
    struct dt_err err = {0};
    CHECK_OK(dt_fs_read(from, 256 << 20, &bytes, &err), err);
    CHECK_OK(dt_fs_replace(to, bytes.at, bytes.len, 0755, &err), err);
    dt_buf_finish(&bytes);
}

TEST(a_plugin_opens_the_device)
{
    check_told(ask("cuda", .plugin = fake("good")), 0, "GPU of straw");
    check_told(ask("auto", .plugin = fake("good")), 0, "GPU of straw");
    check_told(ask("cpu", .plugin = fake("good")), 0, "CPU, ");
}

/* On the CPU this rank would compute while the others wait for it on theirs. */
TEST(a_gpu_that_cannot_be_opened_is_an_error_even_for_auto)
{
    check_told(ask("auto", .plugin = fake("good"), .local_rank = 2), 1, "GPU 2 is not one of 2");
    check_told(ask("cuda", .plugin = fake("good"), .local_rank = 2), 1, "GPU 2 is not one of 2");
}

TEST(without_a_usable_plugin_auto_says_why_and_cuda_fails)
{
    /* clang-format off */
    static const struct { const char *plugin, *why; int status; } rows[] = {
        {"idle",    "the driver is on holiday", 1},
        {"symbol",  "libplugin_symbol.so is no CUDA plugin of dtrun: it has no dt_plugin", 1},
        {"abi",     "libplugin_abi.so belongs to another version of dtrun (its interface is ", 1},
        {"size",    "libplugin_size.so belongs to an older dtrun (its table has ", 1},
        {"library", "cannot load the CUDA plugin: libdt_vanished.so.9: cannot open shared object file", 1},
        {"absent",  "libplugin_absent.so: cannot open shared object file", 1},
    };
    /* clang-format on */
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("%s", rows[i].plugin);
        struct told t = ask("auto", .plugin = fake(rows[i].plugin));
        check_told(t, 0, rows[i].why);
        CHECK(strncmp(t.text, "CPU, ", 5) == 0);
        CHECK(strstr(t.text, "; no GPU: "));
        t = ask("cuda", .plugin = fake(rows[i].plugin));
        check_told(t, rows[i].status, rows[i].why);
        CHECK(strncmp(t.text, "device \"cuda\": ", 15) == 0);
        check_told(ask("cpu", .plugin = fake(rows[i].plugin)), 0, "CPU, ");
    }
}

TEST(of_the_gpus_that_workers_would_take_the_fullest_is_told)
{
    static const struct {
        int workers;
        const char *words;
    } rows[] = {
        {1, "2: straw 0, 90 of 100 free"},
        {2, "2: straw 1, 70 of 100 free"},
        {3, "2: straw 1, 70 of 100 free"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        check_told(ask("memory", .plugin = fake("good"), .local_rank = rows[i].workers), 0,
                   rows[i].words);
    check_told(ask("memory", .plugin = fake("idle"), .local_rank = 1), 1,
               "the driver is on holiday");
    check_told(ask("memory", .plugin = fake("absent"), .local_rank = 1), 1,
               "libplugin_absent.so: cannot open shared object file");
}

TEST(the_variable_takes_a_full_path_only)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/near.so", dir);
    copy_file(fake("good"), path);
    check_told(ask("cuda", .plugin = "near.so", .folder = dir), 2,
               "DTRUN_CUDA_PLUGIN is \"near.so\"");
    check_told(ask("cuda", .plugin = "./near.so", .folder = dir), 2, "give the full path");
    check_told(ask("auto", .plugin = "near.so", .folder = dir), 0,
               "; no GPU: DTRUN_CUDA_PLUGIN is");
}

/* A plugin that is installed on this machine is found rightly, and the story cannot be told. */
TEST(where_none_is_installed_auto_is_silent)
{
    struct told t = ask("cuda");
    if (!strstr(t.text, "no CUDA plugin"))
        SKIP("a CUDA plugin is installed on this machine");
    check_told(t, 2, "device \"cuda\": no CUDA plugin (libdt_cuda.so) is installed");
    t = ask("auto");
    CHECK_EQ(t.status, 0);
    CHECK(!strstr(t.text, "GPU"));
}

TEST(the_current_folder_is_not_looked_in)
{
    char path[PATH_MAX];
    if (!strstr(ask("cuda").text, "no CUDA plugin"))
        SKIP("a CUDA plugin is installed on this machine");
    snprintf(path, sizeof path, "%s/libdt_cuda.so", dir);
    copy_file(fake("good"), path);
    check_told(ask("cuda", .folder = dir), 2, "no CUDA plugin");
    unlink(path);
}

TEST(a_plugin_beside_the_program_or_in_its_tree_is_found)
{
    static const char *const places[] = {"bin/libdt_cuda.so", "lib/libdt_cuda.so"};
    char bin[PATH_MAX], program[PATH_MAX], path[PATH_MAX];
    struct dt_err err = {0};
    snprintf(bin, sizeof bin, "%s/tree/bin", dir);
    snprintf(program, sizeof program, "%s/tree/bin/program", dir);
    snprintf(path, sizeof path, "%s/tree/lib", dir);
    CHECK_OK(dt_fs_mkdir_p(bin, 0755, &err), err);
    CHECK_OK(dt_fs_mkdir_p(path, 0755, &err), err);
    copy_file("/proc/self/exe", program);
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        CHECK_ROW("%s", places[i]);
        snprintf(path, sizeof path, "%s/tree/%s", dir, places[i]);
        copy_file(fake("good"), path);
        check_told(ask("cuda", .program = program), 0, "GPU of straw");
        /* Called by a name relative to where it was started. */
        check_told(ask("cuda", .program = "./program", .folder = bin), 0, "GPU of straw");
        unlink(path);
    }
}

/* Makes a folder NAME with this program in it, and beside that PLUGIN as libdt_cuda.so. */
static void make_tree(const char *name, const char *plugin, char program[PATH_MAX])
{
    char path[PATH_MAX];
    struct dt_err err = {0};
    snprintf(path, sizeof path, "%s/%s", dir, name);
    CHECK_OK(dt_fs_mkdir_p(path, 0755, &err), err);
    snprintf(program, PATH_MAX, "%s/%s/program", dir, name);
    copy_file("/proc/self/exe", program);
    snprintf(path, sizeof path, "%s/%s/libdt_cuda.so", dir, name);
    copy_file(plugin, path);
}

/* Its GPU of straw would be taken if it were asked. */
TEST(auto_loads_no_plugin_where_there_is_no_driver)
{
    char program[PATH_MAX];
    if (dlopen("libcuda.so.1", RTLD_LAZY))
        SKIP("there is an NVIDIA driver here");
    make_tree("driver", fake("good"), program);
    check_told(ask("auto", .program = program), 0,
               "; no GPU: there is no NVIDIA driver (libcuda.so.1)");
    check_told(ask("memory", .program = program, .local_rank = 1), 1, "there is no NVIDIA driver");
    check_told(ask("libraries", .program = program), 0, "0 of CUDA; CPU, ");
}

/* As a login node has one. What the driver says besides, the plugin is asked about. */
TEST(auto_loads_no_plugin_where_the_driver_has_no_gpu)
{
    static const struct {
        const char *driver, *told;
    } rows[] = {
        {"idle", "; no GPU: there is an NVIDIA driver but no GPU for this process"},
        {"busy", "GPU of straw"},
        {"broken", "GPU of straw"},
        {"strange", "GPU of straw"},
    };
    char program[PATH_MAX], libraries[PATH_MAX], path[PATH_MAX];
    struct dt_err err = {0};
    make_tree("drivers", fake("good"), program);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("%s", rows[i].driver);
        snprintf(libraries, sizeof libraries, "%s/%s", dir, rows[i].driver);
        CHECK_OK(dt_fs_mkdir_p(libraries, 0755, &err), err);
        snprintf(path, sizeof path, "%s/%s/libcuda.so.1", dir, rows[i].driver);
        copy_file(fake_driver(rows[i].driver), path);
        check_told(ask("auto", .program = program, .libraries = libraries), 0, rows[i].told);
        if (i == 0)
            check_told(ask("libraries", .program = program, .libraries = libraries), 0,
                       "0 of CUDA; CPU, ");
    }
}

/* With the plugin installed as on a host with GPUs: not the plugin, nor what it stands on. */
TEST(without_a_driver_auto_has_nothing_of_cuda_in_memory)
{
    const char *real = getenv("DT_REAL_PLUGIN");
    char program[PATH_MAX];
    if (!real || !*real)
        SKIP("libdt_cuda.so was not built");
    if (dlopen("libcuda.so.1", RTLD_LAZY))
        SKIP("there is an NVIDIA driver here");
    make_tree("real", real, program);
    /* It would be there: who asks for a GPU loads it. */
    check_told(ask("cuda", .program = program), 1, "there is no NVIDIA driver (libcuda.so.1)");
    check_told(ask("libraries", .program = program), 0, "0 of CUDA; CPU, ");
}

/* The real one, on a machine as most are that test it. */
TEST(the_plugin_loads_where_there_is_no_driver_and_says_so)
{
    const char *real = getenv("DT_REAL_PLUGIN");
    if (!real || !*real)
        SKIP("libdt_cuda.so was not built");
    struct told t = ask("cuda", .plugin = real);
    if (t.status == 0 && strncmp(t.text, "GPU ", 4) == 0)
        SKIP("there is a GPU here: %s", t.text);
    if (access("/dev/nvidiactl", F_OK) == 0)
        SKIP("there is an NVIDIA driver here");
    check_told(t, 1, "there is no NVIDIA driver (libcuda.so.1)");
    check_told(ask("auto", .plugin = real), 0, "; no GPU: there is no NVIDIA driver");
}
