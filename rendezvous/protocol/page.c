/* SPDX-License-Identifier: Apache-2.0 */
/* The progress page, made and read. The worker may write anything into it at any time, so each
 * value is loaded once and judged after that; nothing read here is trusted to stay. */
#include "rendezvous/protocol/page.h"

#include "rendezvous/protocol/spec.h"

#include <linux/futex.h>
#include <math.h>
#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static const char magic[8] = {'D', 'T', 'R', 'N', 'B', 'E', 'A', 'T'};

_Static_assert(sizeof(struct dt_page) == DT_PAGE_SIZE, "others map as much");
_Static_assert(offsetof(struct dt_page, version) == 8, "layout");
_Static_assert(offsetof(struct dt_page, size) == 12, "layout");
_Static_assert(offsetof(struct dt_page, round_over) == 16, "layout");
_Static_assert(offsetof(struct dt_page, saves_wanted) == 20, "layout");
_Static_assert(offsetof(struct dt_page, lease_ns) == 24, "layout");
_Static_assert(offsetof(struct dt_page, updates) == 64, "layout");
_Static_assert(offsetof(struct dt_page, step) == 72, "layout");
_Static_assert(offsetof(struct dt_page, saved) == 80, "layout");
_Static_assert(offsetof(struct dt_page, steps) == 88, "layout");
_Static_assert(offsetof(struct dt_page, updated_ns) == 96, "layout");
_Static_assert(offsetof(struct dt_page, loss) == 104, "layout");
_Static_assert(offsetof(struct dt_page, tokens_per_s) == 112, "layout");
_Static_assert(offsetof(struct dt_page, utilisation) == 120, "layout");
_Static_assert(offsetof(struct dt_page, section_ns) == 128, "layout");
_Static_assert(offsetof(struct dt_page, section) == 136, "layout");
_Static_assert(offsetof(struct dt_page, comms_pid) == 192, "layout");
_Static_assert(offsetof(struct dt_page, comms) == 256, "layout");
_Static_assert(offsetof(struct dt_page, own_ns) == 3328, "layout");
_Static_assert(offsetof(struct dt_page, data_ns) == 3336, "layout");
_Static_assert(offsetof(struct dt_page, may_stay) == 32, "layout");
_Static_assert(offsetof(struct dt_page, worlds_given) == 36, "layout");
_Static_assert(offsetof(struct dt_page, can_stay) == 3344, "layout");
_Static_assert(offsetof(struct dt_page, worlds_left) == 3348, "layout");
_Static_assert(offsetof(struct dt_page, next) == 3392, "layout");
_Static_assert(offsetof(struct dt_page, communication_ns) == 3704, "layout");
_Static_assert(offsetof(struct dt_page, mfu) == 3712, "layout");
_Static_assert(offsetof(struct dt_page, upload_since_ns) == 3720, "layout");
_Static_assert(offsetof(struct dt_page, loss_told) == 3728, "layout");
_Static_assert(offsetof(struct dt_page, folder) == 3736, "layout");
_Static_assert(sizeof(struct dt_page_world) == 308, "layout");
_Static_assert(sizeof(struct dt_page_comm) == 128, "layout");
_Static_assert(offsetof(struct dt_page_comm, entered_ns) == 48, "layout");
_Static_assert(offsetof(struct dt_page_comm, function) == 64, "layout");

void dt_page_init(struct dt_page *page)
{
    memset(page, 0, sizeof *page);
    memcpy(page->magic, magic, sizeof magic);
    page->version = DT_PAGE_VERSION;
    page->size = DT_PAGE_SIZE;
    page->step = page->saved = page->steps = -1;
    page->loss = page->tokens_per_s = page->utilisation = page->mfu = NAN;
}

bool dt_page_is_valid(const struct dt_page *page)
{
    return memcmp(page->magic, magic, sizeof magic) == 0 && page->version == DT_PAGE_VERSION &&
           page->size == DT_PAGE_SIZE;
}

void dt_page_end_round(struct dt_page *page)
{
    __atomic_store_n(&page->round_over, 1, __ATOMIC_RELEASE);
}

void dt_page_want_save(struct dt_page *page)
{
    __atomic_fetch_add(&page->saves_wanted, 1, __ATOMIC_RELEASE);
}

void dt_page_set_lease(struct dt_page *page, int64_t until_ns)
{
    __atomic_store_n(&page->lease_ns, until_ns, __ATOMIC_RELEASE);
}

static int64_t read_step(const int64_t *at)
{
    int64_t v = __atomic_load_n(at, __ATOMIC_RELAXED);
    return v < 0 || v > DT_STEPS_MOST ? -1 : v;
}

static int64_t read_time(const int64_t *at)
{
    int64_t v = __atomic_load_n(at, __ATOMIC_RELAXED);
    return v < 0 ? 0 : v;
}

static double read_number(const double *at, double least, double most)
{
    double v;
    __atomic_load(at, &v, __ATOMIC_RELAXED);
    return v >= least && v <= most ? v : NAN;
}

/* Where the worker does not say whether it tells one, a NaN is none. */
static void read_loss(const struct dt_page *page, struct dt_page_told *out)
{
    __atomic_load(&page->loss, &out->loss, __ATOMIC_RELAXED);
    bool told = __atomic_load_n(&page->loss_told, __ATOMIC_RELAXED) == 1;
    out->has_loss = told || !isnan(out->loss);
}

/* ASCII only: bytes from 0x80 on may be half of a character, or control a terminal. */
static void read_section(const char *from, char out[56])
{
    size_t n = 0;
    for (; n < 55; n++) {
        char c = __atomic_load_n(from + n, __ATOMIC_RELAXED);
        if (c == '\0')
            break;
        if (c < ' ' || c > '~') {
            n = 0;
            break;
        }
        out[n] = c;
    }
    out[n] = '\0';
}

static void read_folder(const char *from, char out[DT_PAGE_FOLDER])
{
    size_t n = 0;
    for (; n < DT_PAGE_FOLDER; n++) {
        out[n] = __atomic_load_n(from + n, __ATOMIC_RELAXED);
        if (out[n] == '\0' || (unsigned char)out[n] < ' ' || out[n] == 0x7f)
            break;
    }
    if (n == DT_PAGE_FOLDER || out[n] != '\0' || out[0] != '/')
        out[0] = '\0';
}

void dt_page_read(const struct dt_page *page, struct dt_page_told *out)
{
    memset(out, 0, sizeof *out);
    out->seen = __atomic_load_n(&page->updates, __ATOMIC_ACQUIRE) != 0;
    out->step = read_step(&page->step);
    out->saved = read_step(&page->saved);
    out->steps = read_step(&page->steps);
    if (out->saved > out->step)
        out->saved = -1;
    out->updated_ns = read_time(&page->updated_ns);
    read_loss(page, out);
    out->tokens_per_s = read_number(&page->tokens_per_s, 0, 1e300);
    out->utilisation = read_number(&page->utilisation, 0, 1);
    out->mfu = read_number(&page->mfu, 0, 1);
    out->section_ns = read_time(&page->section_ns);
    out->own_ns = read_time(&page->own_ns);
    out->data_ns = read_time(&page->data_ns);
    out->communication_ns = read_time(&page->communication_ns);
    out->upload_since_ns = read_time(&page->upload_since_ns);
    read_section(page->section, out->section);
    read_folder(page->folder, out->folder);
}

/* -- workers that stay ------------------------------------------------------------------------ */

static uint32_t load(const uint32_t *at)
{
    return __atomic_load_n(at, __ATOMIC_ACQUIRE);
}

static void store(uint32_t *at, uint32_t value)
{
    __atomic_store_n(at, value, __ATOMIC_RELEASE);
}

void dt_page_let_stay(struct dt_page *page)
{
    store(&page->may_stay, 1);
}

bool dt_page_may_stay(const struct dt_page *page)
{
    return load(&page->may_stay) == 1;
}

void dt_page_say_can_stay(struct dt_page *page, bool can)
{
    store(&page->can_stay, can);
}

bool dt_page_can_stay(const struct dt_page *page)
{
    return load(&page->can_stay) == 1;
}

void dt_page_say_left(struct dt_page *page)
{
    store(&page->worlds_left, load(&page->worlds_given) + 1);
}

bool dt_page_is_waiting(const struct dt_page *page)
{
    return load(&page->worlds_left) == load(&page->worlds_given) + 1;
}

void dt_page_give_world(struct dt_page *page, const struct dt_page_world *world, int64_t until_ns)
{
    page->next = *world;
    store(&page->round_over, 0);
    dt_page_set_lease(page, until_ns);
    store(&page->worlds_given, load(&page->worlds_given) + 1);
    syscall(SYS_futex, &page->worlds_given, FUTEX_WAKE, 1, NULL, NULL, 0);
}

bool dt_page_wait_world(const struct dt_page *page, int timeout, struct dt_page_world *out)
{
    struct timespec bound = {.tv_sec = timeout / 1000, .tv_nsec = timeout % 1000 * 1000000L};
    uint32_t left = load(&page->worlds_left), given = load(&page->worlds_given);
    if (given != left) {
        syscall(SYS_futex, &page->worlds_given, FUTEX_WAIT, given, &bound, NULL, 0);
        given = load(&page->worlds_given);
    }
    if (given != left)
        return false;
    *out = page->next;
    out->master_addr[sizeof out->master_addr - 1] = '\0';
    return true;
}
