/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/gpu/fake_cudnn.h"

enum { SOME_STATUS = 3000, ROLES = 32 };

struct descriptor {
    enum dt_cudnn_kind kind;
    int engine; /* of engines, their configurations, and plans; from 0 on */
    bool finalized;
    int count;
    int64_t ids[ROLES];
    void *at[ROLES];
    void *workspace;
};

struct fake fake;

void fake_reset(void)
{
    CHECK_EQ(fake.made, 0);
    CHECK_EQ(fake.handles, 0);
    fake = (struct fake){.version = 91900, .engines = 1, .workspace = 1024};
}

static size_t fake_version(void)
{
    return fake.version;
}

static const char *fake_text(int status)
{
    return status == SOME_STATUS ? "NOT_SUPPORTED" : "SOMETHING_ELSE";
}

static void fake_last_error(char *text, size_t size)
{
    snprintf(text, size, "the fake was told to");
}

static int fake_create(void **handle)
{
    *handle = &fake;
    fake.handles += fake.create == DT_CUDNN_SUCCESS;
    return fake.create;
}

static int fake_destroy(void *handle)
{
    CHECK(handle == &fake);
    fake.handles--;
    return DT_CUDNN_SUCCESS;
}

static int fake_set_stream(void *handle, cudaStream_t s)
{
    (void)s;
    CHECK(handle == &fake);
    return fake.set_stream;
}

static bool fails(void)
{
    return ++fake.calls == fake.fail_at;
}

static int fake_make(enum dt_cudnn_kind kind, void **made)
{
    if (fails())
        return SOME_STATUS;
    struct descriptor *d = calloc(1, sizeof *d);
    d->kind = kind;
    *made = d;
    fake.made++;
    return DT_CUDNN_SUCCESS;
}

static int fake_unmake(void *made)
{
    free(made);
    fake.made--;
    return DT_CUDNN_SUCCESS;
}

/* Descriptors that are told to another one are finalized, and nothing is told to one that is. */
static int fake_set(void *told, enum dt_cudnn_attribute attribute, enum dt_cudnn_value type,
                    int64_t count, const void *values)
{
    struct descriptor *d = told;
    if (fails())
        return SOME_STATUS;
    CHECK(!d->finalized);
    for (int64_t i = 0; type == DT_CUDNN_OF_DESCRIPTOR && i < count; i++)
        CHECK(((struct descriptor *const *)values)[i]->finalized);
    if (attribute == DT_CUDNN_PLAN_CONFIG)
        d->engine = (*(struct descriptor *const *)values)->engine;
    if (attribute == DT_CUDNN_GRAPH_OPERATIONS)
        fake.operations = (int)count;
    if (attribute == DT_CUDNN_PACK_IDS)
        memcpy(d->ids, values, (size_t)(d->count = (int)count) * sizeof *d->ids);
    if (attribute == DT_CUDNN_PACK_POINTERS)
        memcpy(d->at, values, (size_t)count * sizeof *d->at);
    if (attribute == DT_CUDNN_PACK_WORKSPACE)
        d->workspace = *(void *const *)values;
    return DT_CUDNN_SUCCESS;
}

static int fake_get(void *asked, enum dt_cudnn_attribute attribute, enum dt_cudnn_value type,
                    int64_t room, int64_t *count, void *values)
{
    struct descriptor *d = asked, **to = values;
    (void)type;
    if (fails())
        return SOME_STATUS;
    *count = 1;
    if (attribute == DT_CUDNN_HEURISTICS_RESULTS) {
        *count = fake.engines < room ? fake.engines : room;
        for (int i = 0; i < *count; i++) {
            to[i]->engine = i;
            to[i]->finalized = true;
        }
    } else if (attribute == DT_CUDNN_CONFIG_ENGINE) {
        (*to)->engine = d->engine;
    } else if (attribute == DT_CUDNN_ENGINE_NUMERICAL_NOTES) {
        *count = d->engine < fake.varying;
        *(int *)values = DT_CUDNN_NOTE_NONDETERMINISTIC;
    } else if (attribute == DT_CUDNN_PLAN_WORKSPACE) {
        *(int64_t *)values = fake.workspace;
    }
    return DT_CUDNN_SUCCESS;
}

static int fake_finalize(void *made)
{
    struct descriptor *d = made;
    if (fails() || (d->kind == DT_CUDNN_PLAN && d->engine < fake.unfit))
        return SOME_STATUS;
    d->finalized = true;
    if (d->kind == DT_CUDNN_PLAN)
        fake.engine = d->engine;
    return DT_CUDNN_SUCCESS;
}

static int fake_execute(void *handle, void *plan, void *packed)
{
    struct descriptor *pack = packed;
    CHECK(handle == &fake && ((struct descriptor *)plan)->finalized && pack->finalized);
    fake.executed++;
    fake.workspace_at = pack->workspace;
    if (fake.result)
        fake.result(pack->count, pack->ids, pack->at);
    return fake.execute;
}

const struct dt_cudnn_calls *fake_calls(void)
{
    static const struct dt_cudnn_calls calls = {
        .version = fake_version,
        .text = fake_text,
        .last_error = fake_last_error,
        .create = fake_create,
        .destroy = fake_destroy,
        .set_stream = fake_set_stream,
        .make = fake_make,
        .unmake = fake_unmake,
        .set = fake_set,
        .get = fake_get,
        .finalize = fake_finalize,
        .execute = fake_execute,
    };
    return &calls;
}
