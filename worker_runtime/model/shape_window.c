/* SPDX-License-Identifier: Apache-2.0 */
/* Which layers of a model have a window. Newer files say so once more, layer by layer, in
 * "layer_types". */
#include "worker_runtime/model/inside.h"

#include "base/json.h"
#include "base/json_write.h"

#include <cjson/cJSON.h>
#include <string.h>

#define WINDOW_USUAL 4096 /* of Mistral's class, where a file does not say */

size_t dt_shape_window(const struct dt_shape *s, size_t layer)
{
    return layer < s->full_layers ? 0 : s->window;
}

/* Null is none. */
static int read_size(const struct dt_shape_reading *r, size_t usual)
{
    int64_t window;
    r->shape->window = usual;
    if (!cJSON_GetObjectItemCaseSensitive(r->object, "sliding_window"))
        return 0;
    r->shape->window = 0;
    if (!dt_json_has(r->object, "sliding_window"))
        return 0;
    if (dt_json_int(r->doc, r->object, "sliding_window", 1, DT_POSITIONS_MOST, &window, r->err) < 0)
        return -1;
    r->shape->window = (size_t)window;
    return 0;
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
    if (dt_shape_family(r->shape->family)->window == DT_WINDOW_NONE)
        return 0;
    return read_size(r, WINDOW_USUAL) < 0 ? -1 : check_layer_types(r);
}

void dt_shape_put_window(struct dt_json_writer *w, const struct dt_shape *s)
{
    if (dt_shape_family(s->family)->window == DT_WINDOW_NONE)
        return;
    if (s->window > 0)
        dt_json_put_uint(w, "sliding_window", s->window);
    else
        dt_json_put_null(w, "sliding_window");
}
