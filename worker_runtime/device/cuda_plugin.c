/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_runtime/device/cuda_plugin.h"

#include "base/fs.h"

#include <dlfcn.h>
#include <libgen.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DRIVER "libcuda.so.1"

/* Beside us, from bin/ to the libraries of the same tree, and where it was configured to be. */
static const char *const beside[] = {"", "../" DT_PLUGIN_LIBDIR "/", "../lib/"};

static struct {
    pthread_once_t once;
    const struct dt_cuda_plugin *plugin;
    bool installed;
    struct dt_err err;
} loaded = {.once = PTHREAD_ONCE_INIT};

/* The folder of the library or program this code is in. The loader knows a program as it was
 * called, perhaps relative to a folder that is not the current one any more. */
static const char *own_folder(char path[PATH_MAX])
{
    Dl_info info;
    if (dladdr(&loaded, &info) && info.dli_fname && info.dli_fname[0] == '/' &&
        realpath(info.dli_fname, path))
        return dirname(path);
    return realpath("/proc/self/exe", path) ? dirname(path) : NULL;
}

static bool find_file(char path[PATH_MAX])
{
    char own[PATH_MAX];
    const char *dir = own_folder(own);
    for (size_t i = 0; dir && i < sizeof beside / sizeof *beside; i++)
        if (snprintf(path, PATH_MAX, "%s/%s" DT_CUDA_PLUGIN_FILE, dir, beside[i]) < PATH_MAX &&
            dt_fs_exists(path))
            return true;
    snprintf(path, PATH_MAX, "%s/" DT_CUDA_PLUGIN_FILE, DT_LIBRARY_DIR);
    return dt_fs_exists(path);
}

static void say_not_loaded(const char *path, const char *why, struct dt_err *err)
{
    static const char absent[] = DT_CUDA_PLUGIN_FILE ": cannot open";
    (void)path;
    loaded.installed = strncmp(why, absent, strlen(absent)) != 0;
    if (!loaded.installed)
        dt_err_set(err, DT_E_USAGE,
                   "no CUDA plugin (" DT_CUDA_PLUGIN_FILE ") is installed: this dtrun was built "
                   "without CUDA, or its package for GPUs is missing");
    else
        dt_err_set(err, DT_E_RUNTIME,
                   "cannot load the CUDA plugin: %.300s; where a library of CUDA or NCCL is "
                   "missing, install it or put its folder into LD_LIBRARY_PATH",
                   why);
}

static const struct dt_plugin_kind kind = {
    .what = "CUDA plugin",
    .abi = DT_CUDA_PLUGIN_ABI,
    .size = sizeof(struct dt_cuda_plugin),
    .not_loaded = say_not_loaded,
};

static const struct dt_cuda_plugin *load(struct dt_err *err)
{
    char path[PATH_MAX] = DT_CUDA_PLUGIN_FILE;
    const char *given = secure_getenv("DTRUN_CUDA_PLUGIN");
    loaded.installed = true; /* until say_not_loaded() knows better */
    if (given && *given) {
        if (*given != '/' || strlen(given) >= sizeof path) {
            dt_err_set(
                err, DT_E_USAGE,
                "DTRUN_CUDA_PLUGIN is \"%.200s\"; give the full path of a " DT_CUDA_PLUGIN_FILE
                ", or unset it",
                given);
            return NULL;
        }
        strcpy(path, given);
    } else if (!find_file(path)) {
        strcpy(path, DT_CUDA_PLUGIN_FILE); /* then the loader knows where, or nobody does */
    }
    return dt_plugin_load(path, &kind, err);
}

static void load_once(void)
{
    loaded.plugin = load(&loaded.err);
}

const struct dt_cuda_plugin *dt_cuda_plugin_load(struct dt_err *err)
{
    pthread_once(&loaded.once, load_once);
    if (!loaded.plugin && err)
        *err = loaded.err;
    return loaded.plugin;
}

static bool is_given(void)
{
    const char *given = secure_getenv("DTRUN_CUDA_PLUGIN");
    return given && *given;
}

bool dt_cuda_plugin_installed(void)
{
    char path[PATH_MAX];
    return loaded.installed || is_given() || find_file(path);
}

/* Of all that cuInit() may say. Its other failures are left to the plugin, which has words for
 * them. */
enum { CUDA_ERROR_NO_DEVICE = 100 };

typedef int init_fn(unsigned flags);

/* Whether the driver says that this process has no GPU: as on a login node, or in a container that
 * was given none. A driver that has started cannot be closed. */
static bool drives_nothing(void *driver)
{
    void *at = dlsym(driver, "cuInit");
    init_fn *init;
    memcpy(&init, &at, sizeof init);
    return init && init(0) == CUDA_ERROR_NO_DEVICE;
}

bool dt_cuda_plugin_is_worth_loading(struct dt_err *err)
{
    if (is_given())
        return true;
    void *driver = dlopen(DRIVER, RTLD_LAZY | RTLD_LOCAL);
    if (!driver) {
        dt_err_set(err, DT_E_RUNTIME,
                   "there is no NVIDIA driver (" DRIVER "); install it, or start the container "
                   "with GPUs (docker run --gpus all)");
        return false;
    }
    if (!drives_nothing(driver))
        return true;
    dt_err_set(
        err, DT_E_RUNTIME,
        "there is an NVIDIA driver but no GPU for this process; nvidia-smi -L shows what the "
        "driver sees, CUDA_VISIBLE_DEVICES can hide GPUs, and a container is given them when "
        "it is started (docker run --gpus all)");
    return false;
}
