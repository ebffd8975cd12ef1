/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/output/reading.h"

#include "agent/output/portion.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

/* END is known. Returns how much to read from r->from on. */
static size_t aim(struct dt_reading *r)
{
    const struct dt_reading_wish *w = &r->wish;
    uint64_t kept = w->fresh ? DT_OUTPUT_TAIL : w->kept;
    r->from = dt_portion_from(r->end, w->fresh ? 0 : w->at, kept);
    uint64_t left = r->end - r->from;
    return w->fresh || left < w->most ? (size_t)left : w->most;
}

int dt_reading_begin(struct dt_reading *r, const struct dt_output *o, struct dt_err *err)
{
    r->file = -1;
    r->end = r->log.end;
    if (r->log.file < 0) {
        size_t len = aim(r);
        dt_output_copy(o, r->local_rank, r->stream, r->from, len, &r->bytes);
        return 0;
    }
    r->file = fcntl(r->log.file, F_DUPFD_CLOEXEC, 3);
    return r->file < 0 ? dt_err_errno(err, DT_E_RUNTIME, errno, "no descriptor for a log") : 0;
}

void dt_reading_read(struct dt_reading *r)
{
    struct stat st;
    if (r->file < 0)
        return;
    r->end = fstat(r->file, &st) == 0 && st.st_size > r->log.began
                 ? (uint64_t)(st.st_size - r->log.began)
                 : 0;
    size_t len = aim(r);
    while (r->bytes.len < len) {
        uint8_t *to = dt_buf_room(&r->bytes, len - r->bytes.len);
        off_t at = r->log.began + (off_t)(r->from + r->bytes.len);
        ssize_t n = to ? pread(r->file, to, len - r->bytes.len, at) : 0;
        if (n <= 0)
            break;
        dt_buf_grew(&r->bytes, (size_t)n);
    }
    if (r->bytes.len < len) /* somebody cut it meanwhile, or the disk fails */
        r->end = r->from + r->bytes.len;
}

void dt_reading_finish(struct dt_reading *r)
{
    if (r->file >= 0)
        close(r->file);
    r->file = -1;
    dt_buf_finish(&r->bytes);
}
