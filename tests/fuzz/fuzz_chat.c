/* SPDX-License-Identifier: Apache-2.0 */
/* A line of JSON: refused with a sentence, left out for a reason, or a conversation, which every
 * template renders whole: its parts lie one behind the other, and nothing of it is lost. The same
 * of a preference, which is two of them. */
#include "tests/fuzz/fuzz.h"
#include "worker_runtime/data/chat/conversation.h"
#include "worker_runtime/data/chat/coder.h"

#include <stdlib.h>
#include <string.h>

static void render(const struct dt_template *t, const struct dt_conversation *c, size_t first)
{
    struct dt_err err = {0};
    struct dt_rendered r = {0};
    const struct dt_template_options o = {.last_answer_only = first > 0};
    FUZZ_CHECK(dt_template_render(t, &o, c, first, c->count - first, &r, &err) == 0);
    size_t at = 0;
    for (size_t i = 0; i < r.count; i++) {
        FUZZ_CHECK(r.spans[i].end > at);
        FUZZ_CHECK(!r.spans[i].token || r.spans[i].end - at == strlen(r.spans[i].token));
        at = r.spans[i].end;
    }
    FUZZ_CHECK(at == r.text.len);
    dt_rendered_finish(&r);
}

static void encode(const struct dt_conversation *c)
{
    struct dt_err err = {0};
    struct dt_rendered r = {0};
    struct dt_chat_tokens tokens;
    const struct dt_template *plain = dt_template_find("plain", &err);
    struct dt_chat_coder *coder = dt_chat_coder_create(NULL, plain, &err);
    FUZZ_CHECK(coder != NULL);
    FUZZ_CHECK(
        dt_template_render(plain, &(struct dt_template_options){0}, c, 0, c->count, &r, &err) == 0);
    FUZZ_CHECK(dt_chat_coder_encode(coder, &r, &tokens, &err) == 0);
    FUZZ_CHECK(tokens.count > 0 && !tokens.trained[0] && tokens.trained[tokens.count - 1]);
    dt_chat_coder_destroy(coder);
    dt_rendered_finish(&r);
}

static void read_preference(struct dt_bytes line)
{
    struct dt_err err = {0};
    struct dt_preference p = {0};
    const char *why = NULL;
    int rc = dt_preference_read(&p, line, &why, &err);
    FUZZ_CHECK((rc < 0) == (strlen(err.text) > 0));
    FUZZ_CHECK((rc == 0) == (why != NULL) || rc < 0);
    if (rc > 0) {
        FUZZ_CHECK(p.chosen.count == p.rejected.count);
        encode(&p.chosen);
        encode(&p.rejected);
    }
    dt_preference_finish(&p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    read_preference((struct dt_bytes){data, size});
    struct dt_err err = {0};
    struct dt_conversation c = {0};
    const char *why = NULL, *name;
    int rc = dt_conversation_read(&c, (struct dt_bytes){data, size}, &why, &err);
    FUZZ_CHECK((rc < 0) == (strlen(err.text) > 0));
    FUZZ_CHECK((rc == 0) == (why != NULL) || rc < 0);
    for (size_t i = 0; rc > 0 && (name = dt_template_name(i)); i++) {
        render(dt_template_find(name, &err), &c, 0);
        render(dt_template_find(name, &err), &c, c.count - 1);
    }
    if (rc > 0)
        encode(&c);
    dt_conversation_finish(&c);
    free(dt_conversation_read_text((struct dt_bytes){data, size}, "text", &err));
    return 0;
}
