/* SPDX-License-Identifier: Apache-2.0 */
#include "rendezvous/web/curve.h"

#include "base/json_write.h"
#include "rendezvous/protocol/telemetry.h"

#include <math.h>

/* -- points ----------------------------------------------------------------------------------- */

static struct dt_curve_point point_of(const struct dt_curve_sample *s)
{
    double loss = NAN;
    bool told = dt_telemetry_get_loss(s->loss, &loss);
    loss = isfinite(loss) ? loss : NAN;
    return (struct dt_curve_point){
        .at_s = s->at_s,
        .step = s->step,
        .loss = loss,
        .low = loss,
        .high = loss,
        .broken = told && isnan(loss),
        .tokens = (double)s->tokens_per_s,
        .rated = s->tokens_per_s > 0,
    };
}

/* LATER becomes part of P. fmin() and fmax() pass over what is NaN. */
static void merge(struct dt_curve_point *p, const struct dt_curve_point *later)
{
    p->at_s = later->at_s;
    p->step = later->step;
    p->loss = isnan(later->loss) ? p->loss : later->loss;
    p->low = fmin(p->low, later->low);
    p->high = fmax(p->high, later->high);
    p->broken = p->broken || later->broken;
    p->tokens += later->tokens;
    p->rated += later->rated;
}

/* -- the curve -------------------------------------------------------------------------------- */

/* Takes P into the last point where both are of one stretch. False: there is no place for another.
 */
static bool put_point(struct dt_curve *c, const struct dt_curve_point *p)
{
    struct dt_curve_point *last = c->len > 0 ? &c->at[c->len - 1] : NULL;
    if (last && last->at_s / c->every_s == p->at_s / c->every_s)
        merge(last, p);
    else if (c->len < DT_CURVE_MOST)
        c->at[c->len++] = *p;
    else
        return false;
    return true;
}

static void thin(struct dt_curve *c)
{
    size_t len = c->len;
    c->every_s *= 2;
    c->len = 0;
    for (size_t i = 0; i < len; i++) {
        struct dt_curve_point p = c->at[i];
        put_point(c, &p);
    }
}

void dt_curve_add(struct dt_curve *c, const struct dt_curve_sample *s)
{
    struct dt_curve_point p = point_of(s);
    if (c->every_s == 0)
        c->every_s = DT_CURVE_EVERY_S;
    if (c->len > 0 && c->at[c->len - 1].at_s > p.at_s)
        p.at_s = c->at[c->len - 1].at_s;
    while (!put_point(c, &p))
        thin(c);
}

/* -- as text ---------------------------------------------------------------------------------- */

/* Six digits, as no picture shows more; null: not known. */
static void put_number(struct dt_json_writer *w, double n)
{
    if (isnan(n))
        dt_json_put_null(w, NULL);
    else
        dt_json_put_raw(w, NULL, "%.6g", n);
}

static void put_values(struct dt_json_writer *w, const struct dt_curve_point *p)
{
    dt_json_put_array(w, NULL);
    dt_json_put_int(w, NULL, p->at_s);
    if (p->step < 0)
        dt_json_put_null(w, NULL);
    else
        dt_json_put_int(w, NULL, p->step);
    if (p->broken)
        dt_json_put_text(w, NULL, "nan");
    else
        put_number(w, p->loss);
    put_number(w, p->low);
    put_number(w, p->high);
    put_number(w, p->rated > 0 ? p->tokens / (double)p->rated : NAN);
    dt_json_put_end(w);
}

void dt_curve_put(const struct dt_curve *c, struct dt_buf *out)
{
    static const struct dt_curve empty;
    struct dt_json_writer w = {.out = out};
    c = c ? c : &empty;
    dt_json_put_object(&w, NULL);
    dt_json_put_int(&w, "every_s", c->every_s ? c->every_s : DT_CURVE_EVERY_S);
    dt_json_put_array(&w, "points");
    for (size_t i = 0; i < c->len; i++)
        put_values(&w, &c->at[i]);
    dt_json_put_end(&w);
    dt_json_put_end(&w);
}
