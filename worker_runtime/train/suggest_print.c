/* SPDX-License-Identifier: Apache-2.0 */
/* Suggestions as a person reads them: a table, the one to take, and the keys for it. */
#include "base/json_write.h"
#include "base/str.h"
#include "worker_runtime/train/suggest.h"

#define ROWS_MOST 12

static const char *precision(const struct dt_config *c)
{
    return c->zero.model_type == DT_BF16 ? "bf16" : c->zero.model_type == DT_F16 ? "fp16" : "fp32";
}

static void print_machine(const struct dt_machine *m, struct dt_buf *out)
{
    char memory[24];
    dt_str_from_size(m->memory, memory, sizeof memory);
    dt_buf_printf(out, "%d host%s of %d rank%s", m->hosts, m->hosts == 1 ? "" : "s", m->local,
                  m->local == 1 ? "" : "s");
    if (m->gpus)
        dt_buf_printf(out, ", each on a GPU: %s, with %s%s", m->name, memory,
                      m->seen ? " free" : "");
    else
        dt_buf_printf(out, " on processors, with %s on each host", memory);
    dt_buf_printf(out, "; taken: %.0f GB/s between ranks of a host, %.1f GB/s out of it\n",
                  m->inside * 1e-9, m->network * 1e-9);
}

static void print_head(const struct dt_config *c, const struct dt_machine *m,
                       const struct dt_suggestions *s, struct dt_buf *out)
{
    char room[24];
    dt_buf_printf(out, "%.1f million parameters in %s; a step: %lld samples of %zu tokens\n",
                  (double)dt_shape_params(&c->model.shape) * 1e-6, precision(c),
                  (long long)s->batch, c->data.positions);
    print_machine(m, out);
    dt_buf_printf(out, "%zu mesh%s fit%s in %s of each rank; the fastest by prediction:\n\n",
                  s->count, s->count == 1 ? "" : "es", s->count == 1 ? "s" : "",
                  dt_str_from_size(s->room, room, sizeof room));
    dt_buf_printf(out, "  %6s %8s %7s %6s %6s %5s %9s %6s %6s %10s %6s %10s %7s  %s\n", "tensor",
                  "pipeline", "context", "expert", "data", "stage", "recompute", "micro", "accum",
                  "memory", "idle", "sends", "time", "runs");
}

static void print_row(const struct dt_suggestions *s, const struct dt_suggestion *one,
                      struct dt_buf *out)
{
    char memory[24], sent[24];
    const struct dt_plan *p = &one->plan;
    dt_buf_printf(out, "%s %6d %8d %7d %6d %6d %5d %9s %6lld %6lld %10s %4.0f %% %10s %6.2fx  %s\n",
                  one == s->best ? "*" : " ", p->mesh.size[DT_MESH_TP], p->mesh.size[DT_MESH_PP],
                  p->mesh.size[DT_MESH_CP], p->mesh.size[DT_MESH_EP], p->mesh.size[DT_MESH_DP],
                  p->stage, p->recompute ? "yes" : "no", (long long)p->micro,
                  (long long)p->accumulation, dt_str_from_size(one->memory, memory, sizeof memory),
                  one->cost.idle * 100,
                  dt_str_from_size((uint64_t)one->cost.sent, sent, sizeof sent),
                  one->cost.seconds / s->fastest->cost.seconds, one->today ? "yes" : "not yet");
}

static void print_table(const struct dt_suggestions *s, struct dt_buf *out)
{
    for (size_t i = 0; i < s->count; i++)
        if (i < ROWS_MOST || &s->at[i] == s->best)
            print_row(s, &s->at[i], out);
    dt_buf_put_str(out, "\n");
}

void dt_suggest_write(const struct dt_plan *p, int64_t batch, struct dt_buf *out)
{
    struct dt_json_writer w = {.out = out, .style = DT_JSON_SPACED, .lines = 1};
    dt_json_put_object(&w, NULL);
    dt_json_put_int(&w, "train_batch_size", batch);
    dt_json_put_int(&w, "train_micro_batch_size_per_gpu", p->micro);
    dt_json_put_int(&w, "gradient_accumulation_steps", p->accumulation);
    dt_json_put_object(&w, "zero_optimization");
    dt_json_put_int(&w, "stage", p->stage);
    dt_json_put_end(&w);
    dt_json_put_object(&w, "parallel");
    dt_json_put_int(&w, "tensor", p->mesh.size[DT_MESH_TP]);
    dt_json_put_bool(&w, "sequence", p->sequence);
    dt_json_put_int(&w, "pipeline", p->mesh.size[DT_MESH_PP]);
    dt_json_put_int(&w, "context", p->mesh.size[DT_MESH_CP]);
    dt_json_put_int(&w, "expert", p->mesh.size[DT_MESH_EP]);
    dt_json_put_end(&w);
    dt_json_put_object(&w, "model");
    dt_json_put_bool(&w, "activation_checkpointing", p->recompute);
    dt_json_put_end(&w);
    dt_json_put_end(&w);
    dt_buf_put_str(out, "\n");
}

static void print_choice(const struct dt_suggestions *s, struct dt_buf *out)
{
    char mesh[96];
    if (s->best != s->fastest)
        dt_buf_printf(out, "fastest would be %s, which this version cannot run yet\n",
                      dt_plan_say(&s->fastest->plan, mesh, sizeof mesh));
    if (!s->best) {
        dt_buf_put_str(out, "none of these meshes runs with this version\n");
        return;
    }
    dt_buf_printf(out, "%s: %s; in the configuration, beside what else its blocks say:\n\n",
                  s->best == s->fastest ? "suggested" : "suggested, of what it runs",
                  dt_plan_say(&s->best->plan, mesh, sizeof mesh));
    dt_suggest_write(&s->best->plan, s->batch, out);
    dt_buf_put_str(out, "\n");
}

int dt_suggest_print(const struct dt_config *c, const struct dt_machine *m, struct dt_buf *out,
                     struct dt_err *err)
{
    struct dt_suggestions s;
    int rc = dt_suggest(c, m, &s, err);
    if (rc == 0) {
        print_head(c, m, &s, out);
        print_table(&s, out);
        print_choice(&s, out);
        dt_buf_printf(out,
                      "memory is what --estimate says; times are predictions of a model of "
                      "costs%s\n",
                      m->gpus ? ", which nobody has compared with a run of dtrun on GPUs" : "");
    }
    dt_suggest_finish(&s);
    return rc;
}
