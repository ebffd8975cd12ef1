/* SPDX-License-Identifier: Apache-2.0 */
#include "preflight/probes/python.h"

#include "base/auto.h"
#include "preflight/probes/host.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* find_spec() of a package at the top finds a file and runs none of it. */
static const char question[] = "import sys, importlib.util as u\n"
                               "s = u.find_spec('torch')\n"
                               "print('%d.%d.%d' % sys.version_info[:3])\n"
                               "print(s.origin if s and s.origin else '')\n";

void dt_python_find(const char *text, const char *name, char *out, size_t size)
{
    size_t n = strlen(name);
    *out = '\0';
    for (const char *line = text; line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
        if (strncmp(line, name, n) != 0 || (line[n] != ' ' && line[n] != ':' && line[n] != '='))
            continue;
        const char *value = line + n + strcspn(line + n, "'\"\n");
        if (*value == '\'' || *value == '"')
            snprintf(out, size, "%.*s", (int)strcspn(value + 1, "'\"\n"), value + 1);
        if (*out)
            return;
    }
}

/* As NVIDIA's table of CUDA and the drivers it needs has it; a major version runs with the driver
 * of its first minor one. */
int dt_python_driver_for(const char *cuda)
{
    int major = atoi(cuda);
    return major == 13 ? 580 : major == 12 ? 525 : major == 11 ? 450 : 0;
}

void dt_python_judge(const struct dt_python *p, struct dt_sheet *sheet)
{
    int needed = dt_python_driver_for(p->cuda), driver = atoi(p->driver);
    char built[96] = "";
    if (*p->why) {
        dt_sheet_remark(sheet, "python", DT_GRADE_FAIL, "try it: that path with -V",
                        "%.120s does not run: %s", p->path, p->why);
        return;
    }
    if (*p->cuda)
        snprintf(built, sizeof built, " for CUDA %s%s%s", p->cuda, *p->nccl ? ", NCCL " : "",
                 p->nccl);
    if (*p->cuda && driver > 0 && driver < needed)
        dt_sheet_remark(sheet, "python", DT_GRADE_FAIL,
                        "install a newer driver, or a PyTorch for an older CUDA",
                        "PyTorch %s is for CUDA %s, which needs driver %d or later; this host has "
                        "%s",
                        p->torch, p->cuda, needed, p->driver);
    else if (*p->torch && !*p->cuda && driver > 0)
        dt_sheet_remark(sheet, "python", DT_GRADE_WARN, "install a PyTorch for CUDA",
                        "this host has GPUs, but PyTorch %s is built without CUDA", p->torch);
    else if (*p->torch)
        dt_sheet_remark(sheet, "python", DT_GRADE_OK, NULL, "Python %s, PyTorch %s%s", p->version,
                        p->torch, built);
    else
        dt_sheet_remark(sheet, "python", DT_GRADE_NOTE, "install it, if the script needs it",
                        "Python %s (%.160s) has no PyTorch", p->version, p->path);
    dt_sheet_set(sheet, "Python", "%s", p->version);
    dt_sheet_set(sheet, "PyTorch", "%s", *p->torch ? p->torch : "none");
    if (*p->cuda)
        dt_sheet_set(sheet, "CUDA of PyTorch", "%s", p->cuda);
    if (*p->nccl)
        dt_sheet_set(sheet, "NCCL", "%s", p->nccl);
}

/* The version in "nvidia_nccl_cu12-2.21.5.dist-info", which pip leaves beside the package. */
static void read_nccl(const char *packages, struct dt_python *p)
{
    enum { MOST = 4096 };
    DT_AUTO_FREE void *memory = malloc((size_t)MOST * DT_PROBE_NAME);
    char(*names)[DT_PROBE_NAME] = memory;
    static const char begins[] = "nvidia_nccl_cu";
    size_t n = names ? dt_probe_list("", packages, names, MOST) : 0;
    for (size_t i = 0; i < n; i++) {
        const char *dash = strchr(names[i], '-'), *end = strstr(names[i], ".dist-info");
        if (strncmp(names[i], begins, sizeof begins - 1) == 0 && dash && end > dash)
            snprintf(p->nccl, sizeof p->nccl, "%.*s", (int)(end - dash - 1), dash + 1);
    }
}

/* ORIGIN: torch/__init__.py. */
static void read_torch(const char *origin, struct dt_python *p)
{
    char path[PATH_MAX], text[4096], *slash;
    snprintf(path, sizeof path, "%s", origin);
    if (!(slash = strrchr(path, '/')))
        return;
    snprintf(slash, sizeof path - (size_t)(slash - path), "/version.py");
    dt_probe_read("", path, text, sizeof text);
    dt_python_find(text, "__version__", p->torch, sizeof p->torch);
    dt_python_find(text, "cuda", p->cuda, sizeof p->cuda);
    if (!*p->torch)
        strcpy(p->torch, "unknown");
    *slash = '\0'; /* the package */
    if ((slash = strrchr(path, '/'))) {
        *slash = '\0';
        read_nccl(path, p);
    }
}

/* Its answer to the question. False, and WHY: there is none. */
static bool ask(const char *python, char *answer, size_t size, char *why, size_t why_size)
{
    const char *argv[] = {python, "-c", question, NULL};
    int output = -1, status;
    size_t len = 0;
    ssize_t n;
    pid_t pid = dt_probe_start(argv, &output);
    while (pid > 0 && len < size - 1 && (n = read(output, answer + len, size - 1 - len)) > 0)
        len += (size_t)n;
    if (pid > 0)
        close(output);
    answer[len] = '\0';
    if (pid < 0 || waitpid(pid, &status, 0) < 0)
        snprintf(why, why_size, "%s", strerror(errno));
    else if (*answer == '!')
        snprintf(why, why_size, "%s", strerror(atoi(answer + 1)));
    else if (WIFSIGNALED(status))
        snprintf(why, why_size, "it dies of signal %d", WTERMSIG(status));
    else if (status != 0)
        snprintf(why, why_size, "it ends with status %d", WEXITSTATUS(status));
    return !*why;
}

void dt_python_probe(const struct dt_checkup *c, struct dt_sheet *sheet)
{
    char answer[PATH_MAX + 64], *rest = answer;
    struct dt_python p = {.path = c->python};
    if (!c->python)
        return;
    snprintf(sheet->doing, sizeof sheet->doing, "%.150s", c->python);
    dt_host_read_driver(c->root, p.driver);
    if (ask(c->python, answer, sizeof answer, p.why, sizeof p.why)) {
        const char *version = strsep(&rest, "\n"), *origin = rest ? strsep(&rest, "\n") : "";
        snprintf(p.version, sizeof p.version, "%.31s", version);
        if (*origin)
            read_torch(origin, &p);
    }
    dt_python_judge(&p, sheet);
}
