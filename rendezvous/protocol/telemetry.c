/* SPDX-License-Identifier: Apache-2.0 */
#include "rendezvous/protocol/telemetry.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DISK_PART 20
#define DISK_LITTLE (INT64_C(100) << 10)

/* clang-format off */
#define AT(member) offsetof(struct dt_telemetry, member)
#define PERHAPS_WHOLE(member) \
    {.name = #member, .kind = DT_FIELD_INT64, .optional = true, .at = AT(member), .max = DT_FIELD_WHOLE_MAX}
#define PERHAPS_MIB(member) \
    {.name = #member, .kind = DT_FIELD_INT64, .optional = true, .at = AT(member), .max = DT_MIB_MOST}
#define PERHAPS_COUNTED(member, min_, max_) \
    {.name = #member, .kind = DT_FIELD_INT, .optional = true, .at = AT(member), .min = min_, .max = max_}
#define SHARE(member) PERHAPS_COUNTED(member, 0, DT_SHARE_WHOLE)
#define PERHAPS_WORDS(member, size) \
    {.name = #member, .kind = DT_FIELD_STRING, .optional = true, .at = AT(member), .max = size - 1}

const struct dt_field dt_telemetry_fields[] = {
    {.name = "number", .kind = DT_FIELD_INT64, .at = AT(number), .min = 1, .max = DT_FIELD_WHOLE_MAX},
    PERHAPS_WHOLE(steps),
    PERHAPS_WORDS(loss, DT_LOSS_MAX),
    SHARE(mfu),
    SHARE(compute),
    SHARE(comm),
    SHARE(data),
    SHARE(idle),
    PERHAPS_WHOLE(step_ms),
    PERHAPS_COUNTED(gpus, 0, INT_MAX),
    PERHAPS_COUNTED(gpu_busy, -1, 100),
    PERHAPS_MIB(gpu_mem_mib),
    PERHAPS_MIB(gpu_mem_total_mib),
    PERHAPS_WORDS(disk, DT_DISK_MAX),
    PERHAPS_MIB(disk_free_mib),
    PERHAPS_MIB(disk_total_mib),
    PERHAPS_WHOLE(upload_behind_s),
    PERHAPS_WORDS(worker_ms, DT_WORKER_TIMES_MAX),
    {0},
};
/* clang-format on */

bool dt_telemetry_differs(const struct dt_telemetry *a, const struct dt_telemetry *b)
{
    return !dt_fields_equal(a, b, dt_telemetry_fields + 1); /* behind the number */
}

/* -- kept ------------------------------------------------------------------------------------- */

static const char *keep_text(char *to, size_t size, const char *text)
{
    if (text != to)
        snprintf(to, size, "%s", text ? text : "");
    return to;
}

static bool are_times(const char *text)
{
    return strspn(text, "0123456789,") == strlen(text);
}

void dt_telemetry_keep(struct dt_telemetry_kept *to, const struct dt_telemetry *t)
{
    double loss;
    to->is = *t;
    if (t->compute + t->comm + t->data + t->idle > DT_SHARE_WHOLE)
        to->is.compute = to->is.comm = to->is.data = to->is.idle = 0;
    to->is.loss = keep_text(to->loss, sizeof to->loss, t->loss);
    to->is.disk = keep_text(to->disk, sizeof to->disk, t->disk);
    to->is.worker_ms = keep_text(to->worker_ms, sizeof to->worker_ms, t->worker_ms);
    if (!dt_telemetry_get_loss(to->loss, &loss))
        to->loss[0] = '\0';
    if (!are_times(to->worker_ms))
        to->worker_ms[0] = '\0';
}

/* -- disks ------------------------------------------------------------------------------------ */

int64_t dt_disk_little_mib(int64_t total_mib)
{
    int64_t part = total_mib / DISK_PART;
    return part < DISK_LITTLE ? part : DISK_LITTLE;
}

/* -- the loss --------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    double value;
} odd[] = {{"nan", NAN}, {"inf", INFINITY}, {"-inf", -INFINITY}};

const char *dt_telemetry_put_loss(double loss, char out[DT_LOSS_MAX])
{
    const char *name = isnan(loss) ? "nan" : loss > 0 ? "inf" : "-inf";
    if (isfinite(loss))
        snprintf(out, DT_LOSS_MAX, "%.6g", loss);
    else
        snprintf(out, DT_LOSS_MAX, "%s", name);
    return out;
}

bool dt_telemetry_get_loss(const char *loss, double *out)
{
    char *end;
    for (size_t i = 0; loss && i < sizeof odd / sizeof *odd; i++)
        if (strcmp(loss, odd[i].name) == 0) {
            *out = odd[i].value;
            return true;
        }
    if (!loss || !*loss || strspn(loss, "0123456789.e+-") != strlen(loss))
        return false;
    *out = strtod(loss, &end);
    return *end == '\0' && isfinite(*out);
}
