/* SPDX-License-Identifier: Apache-2.0 */
#include "preflight/probes/compute.h"

#include "base/auto.h"
#include "base/json.h"
#include "base/plugin.h"
#include "preflight/speeds.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define PROGRAM                                                                                    \
    "worker_runtime/dtrun-train"  /* where it was built; installed, it is beside dtrun             \
                                   */
#define PATIENCE (45 * DT_SECOND) /* with the program, which has its own limits */
#define LINE_MAX_BYTES 1024
#define SAID_MAX (DT_COMPUTE_MAX * 2 * LINE_MAX_BYTES)

/* -- lines ------------------------------------------------------------------------------------ */

static void take_text(const struct dt_json *doc, const char *name, char *out, size_t size)
{
    const char *text;
    if (dt_json_has(doc->root, name) && dt_json_string(doc, NULL, name, &text, NULL) == 0)
        snprintf(out, size, "%s", text);
}

static void take_number(const struct dt_json *doc, const char *name, uint64_t *out)
{
    int64_t n;
    if (dt_json_has(doc->root, name) &&
        dt_json_int(doc, NULL, name, 0, INT64_C(1) << 53, &n, NULL) == 0)
        *out = (uint64_t)n;
}

static enum dt_tried_state state_of(const char *word)
{
    static const char *const words[] = {
        [DT_TRIED_WELL] = "well",
        [DT_TRIED_WRONG] = "wrong",
        [DT_TRIED_FAILED] = "failed",
        [DT_TRIED_REFUSED] = "refused",
    };
    for (int s = DT_TRIED_WELL; s <= DT_TRIED_REFUSED; s++)
        if (strcmp(word, words[s]) == 0)
            return (enum dt_tried_state)s;
    return DT_TRIED_NOT_OVER; /* "trying", "silent" */
}

/* That of which a line with the same name came before, or a new one; NULL: there is no room. */
static struct dt_tried *find(struct dt_compute *c, const char *device)
{
    for (size_t i = 0; i < c->count; i++)
        if (strcmp(c->at[i].speed.device, device) == 0)
            return &c->at[i];
    if (c->count == DT_COMPUTE_MAX)
        return NULL;
    struct dt_tried *t = &c->at[c->count++];
    *t = (struct dt_tried){0};
    snprintf(t->speed.device, sizeof t->speed.device, "%s", device);
    return t;
}

static void take_device(struct dt_compute *c, const struct dt_json *doc, const char *kind,
                        const char *state)
{
    char name[sizeof((struct dt_speed *)0)->device] = DT_SPEED_CPU;
    int64_t index;
    if (dt_json_int(doc, NULL, "index", 0, 9999, &index, NULL) < 0)
        return;
    if (strcmp(kind, "cpu") != 0)
        snprintf(name, sizeof name, "GPU %d", (int)index);
    struct dt_tried *t = find(c, name);
    if (!t)
        return;
    t->state = state_of(state);
    take_text(doc, "name", t->speed.kind, sizeof t->speed.kind);
    take_text(doc, "uuid", t->speed.id, sizeof t->speed.id);
    take_text(doc, "pci", t->pci, sizeof t->pci);
    take_text(doc, "why", t->why, sizeof t->why);
    take_number(doc, "flops", &t->speed.flops);
    take_number(doc, "written", &t->speed.written);
    take_number(doc, "got", &t->speed.got);
}

void dt_compute_take(struct dt_compute *c, const char *line, size_t len)
{
    struct dt_json doc;
    const char *kind, *state;
    if (dt_json_parse(&doc, line, len, LINE_MAX_BYTES, NULL) < 0)
        return;
    if (dt_json_string(&doc, NULL, "device", &kind, NULL) == 0 &&
        dt_json_string(&doc, NULL, "state", &state, NULL) == 0) {
        if (strcmp(state, "absent") != 0) {
            take_device(c, &doc, kind, state);
        } else {
            c->absent = true;
            dt_json_bool(&doc, NULL, "installed", &c->installed, NULL);
            take_text(&doc, "why", c->why, sizeof c->why);
        }
    }
    dt_json_finish(&doc);
}

/* -- what it means ---------------------------------------------------------------------------- */

static const struct verdict {
    enum dt_grade grade;
    const char *what, *advice;
} verdicts[] = {
    [DT_TRIED_NOT_OVER] = {DT_GRADE_FAIL, "does not answer",
                           "dmesg | grep Xid may say why; nvidia-smi --gpu-reset, or drain this "
                           "host"},
    [DT_TRIED_WRONG] = {DT_GRADE_FAIL, "is wrong",
                        "leave this host out; nvidia-smi --gpu-reset, then try `dtrun-train "
                        "probe`; if it stays so, have it replaced"},
    [DT_TRIED_FAILED] = {DT_GRADE_FAIL, "fails at work",
                         "dmesg | grep Xid may say more; nvidia-smi --gpu-reset, then try "
                         "`dtrun-train probe`"},
    [DT_TRIED_REFUSED] = {DT_GRADE_WARN, "cannot be tried",
                          "nvidia-smi shows who uses it; `dtrun-train probe` tries it again"},
};

static void judge_one(const struct dt_tried *t, const char *end, struct dt_sheet *sheet)
{
    const struct verdict *v = &verdicts[t->state];
    const char *why = t->state == DT_TRIED_NOT_OVER ? end : t->why;
    bool is_gpu = strcmp(t->speed.device, DT_SPEED_CPU) != 0;
    dt_sheet_remark(
        sheet, "compute", v->grade, is_gpu ? v->advice : "leave this host out, and test its memory",
        "%s (%.40s%s%s%s%s) %s%s%.167s", t->speed.device, t->speed.kind, *t->speed.id ? ", " : "",
        t->speed.id, *t->pci ? ", " : "", t->pci, v->what, *why ? ": " : "", why);
}

static void judge_absent(const struct dt_compute *c, struct dt_sheet *sheet)
{
    if (c->installed)
        dt_sheet_remark(sheet, "compute", DT_GRADE_NOTE,
                        "it does not matter to programs that do without dtrun's plugin",
                        "no GPU is tried: %s", c->why);
    else
        dt_sheet_remark(sheet, "compute", DT_GRADE_OK, NULL, "no GPU is tried: %s", c->why);
}

void dt_compute_judge(const struct dt_compute *c, struct dt_sheet *sheet)
{
    struct dt_speed_of well[DT_COMPUTE_MAX];
    size_t n = 0;
    if (c->absent)
        judge_absent(c, sheet);
    else if (c->count == 0)
        dt_sheet_remark(sheet, "compute", DT_GRADE_WARN, "try it: `dtrun-train probe`",
                        "`dtrun-train probe` says nothing of any device%s%s", *c->end ? ": " : "",
                        c->end);
    for (size_t i = 0; i < c->count; i++) {
        const struct dt_tried *t = &c->at[i];
        if (t->state != DT_TRIED_WELL) {
            judge_one(t, c->end, sheet);
            continue;
        }
        well[n++] = (struct dt_speed_of){.speed = &t->speed};
        dt_sheet_add_speed(sheet, &t->speed);
    }
    dt_speeds_compare(well, n, sheet);
}

/* -- the program ------------------------------------------------------------------------------ */

/* All that it says until nobody can say more, or the time is over: a driver may hold its end. */
static size_t listen(int output, char *said, size_t size)
{
    dt_ms until = dt_clock_after(dt_clock_monotonic(), PATIENCE);
    struct pollfd p = {.fd = output, .events = POLLIN};
    size_t len = 0;
    while (len < size) {
        dt_ms left = until - dt_clock_monotonic();
        if (left <= 0 || poll(&p, 1, (int)left) <= 0)
            break;
        ssize_t n = read(output, said + len, size - len);
        if (n <= 0)
            break;
        len += (size_t)n;
    }
    return len;
}

static void take_lines(struct dt_compute *c, const char *said, size_t len)
{
    for (const char *at = said, *end; (end = memchr(at, '\n', len)); at = end + 1) {
        dt_compute_take(c, at, (size_t)(end - at));
        len -= (size_t)(end + 1 - at);
    }
}

/* It is killed if it still runs; one that the kernel does not let die is left. */
static void note_end(pid_t pid, struct dt_compute *c)
{
    int status = 0;
    kill(pid, SIGKILL);
    for (int i = 0; i < 10 && waitpid(pid, &status, WNOHANG) == 0; i++)
        poll(NULL, 0, 10);
    if (WIFSIGNALED(status) && WTERMSIG(status) != SIGKILL)
        snprintf(c->end, sizeof c->end, "the program died of signal %d", WTERMSIG(status));
    else if (WIFEXITED(status) && WEXITSTATUS(status) > 1)
        snprintf(c->end, sizeof c->end, "the program ended with status %d", WEXITSTATUS(status));
}

static void ask(const char *path, const char *kind, struct dt_compute *c)
{
    DT_AUTO_FREE char *said = malloc(SAID_MAX);
    const char *argv[] = {path, "probe", "--device", kind, NULL};
    int output = -1;
    pid_t pid = said ? dt_probe_start(argv, &output) : -1;
    if (pid < 0) {
        snprintf(c->end, sizeof c->end, "%s", strerror(errno));
        return;
    }
    size_t len = listen(output, said, SAID_MAX - 1);
    said[len] = '\0';
    close(output);
    take_lines(c, said, len);
    note_end(pid, c);
    if (*said == '!')
        snprintf(c->end, sizeof c->end, "%s", strerror(atoi(said + 1)));
}

/* Whether the kernel or a person says that there is a GPU: else nothing is started. */
static bool may_have_gpus(const struct dt_checkup *c)
{
    char cards[1][DT_PROBE_NAME];
    const char *plugin = secure_getenv("DTRUN_CUDA_PLUGIN");
    return (plugin && *plugin) || dt_probe_list(c->root, "/proc/driver/nvidia/gpus", cards, 1) > 0;
}

void dt_compute_probe(const struct dt_checkup *c, struct dt_sheet *sheet)
{
    char path[PATH_MAX];
    DT_AUTO_FREE struct dt_compute *answer = calloc(1, sizeof *answer);
    if (!answer || c->compute == DT_COMPUTE_NOTHING)
        return;
    snprintf(sheet->doing, sizeof sheet->doing, "what `dtrun-train probe` does");
    bool wants_gpus = c->compute == DT_COMPUTE_GPUS;
    if (wants_gpus && !may_have_gpus(c)) {
        dt_sheet_remark(sheet, "compute", DT_GRADE_OK, NULL,
                        "no GPU is tried: this host has none of NVIDIA's");
        return;
    }
    if (!dt_plugin_find(PROGRAM, path)) {
        dt_sheet_remark(sheet, "compute", DT_GRADE_OK, NULL,
                        "nothing is tried: dtrun-train is not installed");
        return;
    }
    ask(path, wants_gpus ? "auto" : "cpu", answer);
    dt_compute_judge(answer, sheet);
}
