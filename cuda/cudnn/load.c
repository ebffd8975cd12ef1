/* SPDX-License-Identifier: Apache-2.0 */
#include "cuda/cudnn/calls.h"

#include <cublasLt.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LIBRARY "libcudnn.so.9"

static struct dt_cudnn_calls loaded;

/* Wheels of NVIDIA's have a folder a library: nvidia/cublas/lib and nvidia/cudnn/lib; since CUDA 13
 * it is nvidia/cu13/lib that has cuBLASLt. A toolkit has both in one. Links are followed, as cuDNN
 * looks for its parts beside itself. */
static void *open_beside_cublas(void)
{
    static const char *const ways[] = {"", "../../cudnn/lib/"};
    cublasStatus_t (*const create)(cublasLtHandle_t *) = cublasLtCreate;
    char path[4200];
    Dl_info at;
    void *function, *library = NULL;
    memcpy(&function, &create, sizeof function);
    char *real = dladdr(function, &at) && at.dli_fname ? realpath(at.dli_fname, NULL) : NULL;
    const char *slash = real ? strrchr(real, '/') : NULL;
    for (size_t i = 0; slash && !library && i < sizeof ways / sizeof *ways; i++) {
        int n = snprintf(path, sizeof path, "%.*s/%s" LIBRARY, (int)(slash - real), real, ways[i]);
        library = n > 0 && (size_t)n < sizeof path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    }
    free(real);
    return library;
}

static void *open_library(void)
{
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
    if (!library)
        library = open_beside_cublas();
    return library ? library : dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
}

/* ISO C knows no way from void * to a function: POSIX promises this one. */
static int look_up(void *library, struct dt_cudnn_calls *c, struct dt_err *err)
{
    const struct {
        void **call;
        const char *name;
    } all[] = {
        {(void **)&c->version, "cudnnGetVersion"},
        {(void **)&c->text, "cudnnGetErrorString"},
        {(void **)&c->last_error, "cudnnGetLastErrorString"},
        {(void **)&c->create, "cudnnCreate"},
        {(void **)&c->destroy, "cudnnDestroy"},
        {(void **)&c->set_stream, "cudnnSetStream"},
        {(void **)&c->make, "cudnnBackendCreateDescriptor"},
        {(void **)&c->unmake, "cudnnBackendDestroyDescriptor"},
        {(void **)&c->set, "cudnnBackendSetAttribute"},
        {(void **)&c->get, "cudnnBackendGetAttribute"},
        {(void **)&c->finalize, "cudnnBackendFinalize"},
        {(void **)&c->execute, "cudnnBackendExecute"},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        *all[i].call = dlsym(library, all[i].name);
        if (!*all[i].call)
            return dt_err_set(err, DT_E_RUNTIME, LIBRARY " has no %s: it is damaged, or too old",
                              all[i].name);
    }
    return dt_cudnn_check_version(c->version(), err);
}

const struct dt_cudnn_calls *dt_cudnn_load(struct dt_err *err)
{
    void *library = open_library();
    if (!library) {
        dt_err_set(err, DT_E_RUNTIME,
                   "there is no " LIBRARY ": neither beside cuBLASLt nor where the loader looks; "
                   "install NVIDIA's package libcudnn9-cuda, or let LD_LIBRARY_PATH name the "
                   "folder that has it");
        return NULL;
    }
    if (look_up(library, &loaded, err) == 0)
        return &loaded;
    dlclose(library);
    return NULL;
}
