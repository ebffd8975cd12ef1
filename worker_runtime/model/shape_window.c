/* SPDX-License-Identifier: Apache-2.0 */
/* Which layers of a model have a window. Newer files say so once more, layer by layer, in
 * "layer_types". */
#include "worker_runtime/model/inside.h"

#include "base/json.h"
#include "base/json_write.h"

#include <cjson/cJSON.h>
#include <string.h>

/* Of transformers' classes, where a file does not say. */
#define WINDOW_USUAL 4096
#define FULL_LAYERS_USUAL 28
#define PATTERN "sliding_window_pattern" /* a window, but for each so many'th layer */

static bool is_full(const struct dt_shape *s, size_t layer)
{
    return layer < s->full_layers || (s->full_every > 0 && (layer + 1) % s->full_every == 0);
}

size_t dt_shape_window(const struct dt_shape *s, size_t layer)
{
    return is_full(s, layer) ? 0 : s->window;
}

bool dt_shape_is_local(const struct dt_shape *s, size_t layer)
{
    return s->local_theta > 0 && !is_full(s, layer);
}

/* Null is none. */
static int read_size(const struct dt_shape_reading *r)
{
    int64_t window = WINDOW_USUAL;
    bool usual = dt_shape_family(r->shape->family)->window != DT_WINDOW_IF_SAID;
    if (usual && !cJSON_GetObjectItemCaseSensitive(r->object, "sliding_window"))
        r->shape->window = WINDOW_USUAL;
    if (!dt_json_has(r->object, "sliding_window"))
        return 0;
    if (dt_json_int(r->doc, r->object, "sliding_window", 1, DT_POSITIONS_MOST, &window, r->err) < 0)
        return -1;
    r->shape->window = (size_t)window;
    return 0;
}

/* Files without windows have all the numbers nevertheless: they mean nothing then. */
static int read_layers(const struct dt_shape_reading *r)
{
    bool use = false;
    int64_t full = FULL_LAYERS_USUAL;
    if (dt_json_has(r->object, "use_sliding_window") &&
        dt_json_bool(r->doc, r->object, "use_sliding_window", &use, r->err) < 0)
        return -1;
    if (!use)
        return 0;
    if (dt_json_has(r->object, "max_window_layers") &&
        dt_json_int(r->doc, r->object, "max_window_layers", 0, DT_LAYERS_MOST, &full, r->err) < 0)
        return -1;
    r->shape->full_layers = (size_t)full;
    return read_size(r);
}

/* The first layer without a window says which others have none; where all have one, the next
 * layer, which is not there, would be it. */
static size_t first_full(const struct cJSON *types)
{
    size_t layer = 1;
    for (const struct cJSON *t = dt_json_first(types); t; t = dt_json_next(t), layer++)
        if (cJSON_IsString(t) && strcmp(t->valuestring, "full_attention") == 0)
            break;
    return layer;
}

static int read_turns(const struct dt_shape_reading *r)
{
    const struct cJSON *types;
    int64_t every = (int64_t)r->shape->full_every;
    if (dt_json_has(r->object, PATTERN)) {
        if (dt_json_int(r->doc, r->object, PATTERN, 1, DT_LAYERS_MOST + 1, &every, r->err) < 0)
            return -1;
    } else if (dt_json_has(r->object, "layer_types")) {
        if (dt_json_array(r->doc, r->object, "layer_types", &types, r->err) < 0)
            return -1;
        every = (int64_t)first_full(types);
    }
    r->shape->full_every = (size_t)every;
    if (read_size(r) < 0)
        return -1;
    return r->shape->window > 0 || every == 1
               ? 0
               : dt_shape_refuse(r, "sliding_window", "layers of this family have a window");
}

/* Another order of layers than the family's own is refused. */
static int check_layer_types(const struct dt_shape_reading *r)
{
    const struct cJSON *types, *type;
    size_t layer = 0;
    if (!dt_json_has(r->object, "layer_types"))
        return 0;
    if (dt_json_array(r->doc, r->object, "layer_types", &types, r->err) < 0)
        return -1;
    for (type = dt_json_first(types); type; type = dt_json_next(type), layer++) {
        bool windowed = layer < r->shape->layers && dt_shape_window(r->shape, layer) > 0;
        const char *is = windowed ? "sliding_attention" : "full_attention";
        if (layer >= r->shape->layers || !cJSON_IsString(type) ||
            strcmp(type->valuestring, is) != 0)
            break;
    }
    if (type || layer < r->shape->layers)
        return dt_shape_refuse(r, "layer_types",
                               "it differs from what the other settings say of windows, and is "
                               "not implemented");
    return 0;
}

int dt_shape_read_window(const struct dt_shape_reading *r)
{
    switch (dt_shape_family(r->shape->family)->window) {
    case DT_WINDOW_NONE:
        return 0;
    case DT_WINDOW_ALWAYS:
    case DT_WINDOW_IF_SAID:
        return read_size(r) < 0 ? -1 : check_layer_types(r);
    case DT_WINDOW_BY_LAYER:
        return read_layers(r) < 0 ? -1 : check_layer_types(r);
    case DT_WINDOW_IN_TURNS:
        return read_turns(r) < 0 ? -1 : check_layer_types(r);
    }
    return 0;
}

/* Older programs ask for the number, newer ones for the list. */
static void put_turns(struct dt_json_writer *w, const struct dt_shape *s)
{
    dt_json_put_uint(w, PATTERN, s->full_every);
    dt_json_put_array(w, "layer_types");
    for (size_t layer = 0; layer < s->layers; layer++)
        dt_json_put_text(w, NULL, is_full(s, layer) ? "full_attention" : "sliding_attention");
    dt_json_put_end(w);
}

void dt_shape_put_window(struct dt_json_writer *w, const struct dt_shape *s)
{
    enum dt_window_rule rule = dt_shape_family(s->family)->window;
    if (rule == DT_WINDOW_NONE)
        return;
    if (rule == DT_WINDOW_BY_LAYER) {
        dt_json_put_bool(w, "use_sliding_window", s->window > 0);
        dt_json_put_uint(w, "max_window_layers", s->window > 0 ? s->full_layers : s->layers);
    }
    if (rule == DT_WINDOW_IN_TURNS)
        put_turns(w, s);
    if (s->window > 0)
        dt_json_put_uint(w, "sliding_window", s->window);
    else
        dt_json_put_null(w, "sliding_window");
}
