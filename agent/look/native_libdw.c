/* SPDX-License-Identifier: Apache-2.0 */
/* dt_native.so: stacks of C code, by libdw of elfutils. */
#include "agent/look/native_walk.h"

#include <dlfcn.h>
#include <elfutils/libdwfl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct walk {
    int fd;
    struct dt_native_record record;
    int depth;
    char *(*demangle)(const char *name, char *out, size_t *size, int *status);
};

/* What runs Python's calls: their own stack says more about them. */
static bool is_python_loop(const char *name)
{
    return strstr(name, "PyEval_EvalFrameDefault") != NULL;
}

/* "a::b(int, c<d>)" becomes "a::b". */
static void strip_arguments(char *name)
{
    size_t len = strlen(name), depth = 0;
    if (len == 0 || name[len - 1] != ')')
        return;
    while (len-- > 0) {
        depth += name[len] == ')';
        depth -= name[len] == '(';
        if (depth == 0)
            break;
    }
    if (len > 0 && len != (size_t)-1)
        name[len] = '\0';
}

static void put_name(struct walk *w, const char *name)
{
    int status;
    char *plain =
        w->demangle && strncmp(name, "_Z", 2) == 0 ? w->demangle(name, NULL, NULL, &status) : NULL;
    if (plain)
        strip_arguments(plain);
    snprintf(w->record.frame.function, sizeof w->record.frame.function, "%s", plain ? plain : name);
    free(plain);
}

static void put_object(struct walk *w, Dwfl_Module *module)
{
    const char *path =
        module ? dwfl_module_info(module, NULL, NULL, NULL, NULL, NULL, NULL, NULL) : NULL;
    const char *slash = path ? strrchr(path, '/') : NULL;
    snprintf(w->record.frame.object, sizeof w->record.frame.object, "%s",
             slash  ? slash + 1
             : path ? path
                    : "");
}

/* PC is where the call returns to, which may be behind the end of the function. */
static int on_frame(Dwfl_Frame *frame, void *arg)
{
    struct walk *w = arg;
    Dwarf_Addr pc;
    bool exact;
    if (w->depth++ == DT_NATIVE_DEPTH_MAX || !dwfl_frame_pc(frame, &pc, &exact))
        return DWARF_CB_ABORT;
    pc -= exact ? 0 : 1;
    Dwfl_Module *module = dwfl_addrmodule(dwfl_thread_dwfl(dwfl_frame_thread(frame)), pc);
    GElf_Off offset;
    GElf_Sym symbol;
    const char *name =
        module ? dwfl_module_addrinfo(module, pc, &offset, &symbol, NULL, NULL, NULL) : NULL;
    if (name && is_python_loop(name))
        return DWARF_CB_ABORT;
    put_name(w, name ? name : "");
    put_object(w, module);
    return write(w->fd, &w->record, sizeof w->record) == (ssize_t)sizeof w->record ? DWARF_CB_OK
                                                                                   : DWARF_CB_ABORT;
}

static int attach(Dwfl *dwfl, pid_t pid, struct dt_err *err)
{
    if (!dwfl || dwfl_linux_proc_report(dwfl, pid) != 0 || dwfl_report_end(dwfl, NULL, NULL) != 0 ||
        dwfl_linux_proc_attach(dwfl, pid, false) != 0)
        return dt_err_set(err, DT_E_RUNTIME, "libdw: %s", dwfl_errmsg(-1));
    return 0;
}

static int walk(pid_t pid, const pid_t *tids, size_t count, int fd, struct dt_err *err)
{
    /* No debugging information is looked for: it takes long, and names are known without. */
    static char no_path[] = "-";
    static char *path = no_path;
    static const Dwfl_Callbacks callbacks = {
        .find_elf = dwfl_linux_proc_find_elf,
        .find_debuginfo = dwfl_standard_find_debuginfo,
        .debuginfo_path = &path,
    };
    void *cxx = dlopen("libstdc++.so.6", RTLD_LAZY);
    struct walk w = {.fd = fd};
    *(void **)&w.demangle = cxx ? dlsym(cxx, "__cxa_demangle") : NULL;
    unsetenv("DEBUGINFOD_URLS");
    Dwfl *dwfl = dwfl_begin(&callbacks);
    int rc = attach(dwfl, pid, err);
    for (size_t i = 0; rc == 0 && i < count; i++) {
        w.depth = 0;
        w.record.tid = tids[i];
        dwfl_getthread_frames(dwfl, tids[i], on_frame, &w);
    }
    dwfl_end(dwfl);
    return rc;
}

extern const struct dt_native_walk_table dt_plugin;
DT_PLUGIN_EXPORT const struct dt_native_walk_table dt_plugin = {
    .head = {.abi = DT_NATIVE_WALK_ABI, .size = sizeof(struct dt_native_walk_table)},
    .walk = walk,
};
