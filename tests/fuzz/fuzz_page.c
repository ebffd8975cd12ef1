/* SPDX-License-Identifier: Apache-2.0 */
/* A progress page of a worker that writes anything: what is read keeps the promises of page.h and
 * comms.h, and what is said of it is one line of plain text. */
#include "rendezvous/protocol/comms.h"
#include "tests/fuzz/fuzz.h"

#include <math.h>
#include <string.h>

static void check_text(const char *text, size_t size)
{
    FUZZ_CHECK(memchr(text, '\0', size) != NULL);
    for (; *text; text++)
        FUZZ_CHECK(*text >= ' ' && *text <= '~');
}

static void check_worker(const struct dt_page *page)
{
    struct dt_page_told t;
    dt_page_read(page, &t);
    FUZZ_CHECK(t.step >= -1 && t.saved >= -1 && t.steps >= -1 && t.saved <= t.step);
    FUZZ_CHECK(t.updated_ns >= 0 && t.section_ns >= 0);
    FUZZ_CHECK(t.has_loss || isnan(t.loss));
    FUZZ_CHECK(t.communication_ns >= 0 && t.upload_since_ns >= 0);
    FUZZ_CHECK(isnan(t.mfu) || (t.mfu >= 0 && t.mfu <= 1));
    FUZZ_CHECK(isnan(t.tokens_per_s) || t.tokens_per_s >= 0);
    FUZZ_CHECK(isnan(t.utilisation) || (t.utilisation >= 0 && t.utilisation <= 1));
    check_text(t.section, sizeof t.section);
    FUZZ_CHECK(memchr(t.folder, '\0', sizeof t.folder) != NULL);
    FUZZ_CHECK(!*t.folder || *t.folder == '/');
}

static void check_comm(const struct dt_comm_told *c)
{
    char words[DT_COMM_WORDS];
    FUZZ_CHECK(c->rank >= -1 && c->ranks != 0 && c->ranks >= -1);
    FUZZ_CHECK(c->ranks < 0 || c->rank < c->ranks);
    FUZZ_CHECK(c->entered >= 0 && c->exchanged >= 0 && c->count >= 0 && c->bytes >= -1);
    FUZZ_CHECK(c->ended >= -1 && c->ended <= c->entered);
    FUZZ_CHECK(c->entered_ns >= 0 && c->peer >= -1);
    check_text(c->function, sizeof c->function);
    check_text(c->datatype, sizeof c->datatype);
    check_text(c->name, sizeof c->name);
    check_text(dt_comm_describe(c, words), sizeof words);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct dt_page page;
    struct dt_comms_told comms;
    dt_page_init(&page);
    if (size > 0)
        memcpy(&page, data, size < sizeof page ? size : sizeof page);
    check_worker(&page);
    dt_page_read_comms(&page, &comms);
    FUZZ_CHECK(comms.count >= 0 && comms.count <= DT_PAGE_COMMS && comms.left_out >= 0);
    for (int i = 0; i < comms.count; i++)
        check_comm(&comms.at[i]);
    FUZZ_CHECK(dt_comms_calls(&comms) >= 0);
    const struct dt_comm_told *latest = dt_comms_latest(&comms);
    FUZZ_CHECK(!latest || latest->entered + latest->exchanged > 0);
    return 0;
}
