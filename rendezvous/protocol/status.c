/* SPDX-License-Identifier: Apache-2.0 */
#include "rendezvous/protocol/status.h"

#include "rendezvous/protocol/messages.h"

#include <limits.h>
#include <stddef.h>

#define WORD_MAX 32
#define MASTER_MAX (DT_NODE_ADDR_MAX + 8) /* with its port */

/* clang-format off */
#define WORDS(type, member, size) \
    {.name = #member, .kind = DT_FIELD_STRING, .at = offsetof(struct type, member), .max = size - 1}
#define COUNTED(type, member, min_) \
    {.name = #member, .kind = DT_FIELD_INT, .at = offsetof(struct type, member), .min = min_, .max = INT_MAX}
#define OF_SPEC(name_, member) \
    {.name = name_, .kind = DT_FIELD_INT, .at = offsetof(struct dt_status_run, spec.member), .max = INT_MAX}
#define TEXT_OF_SPEC(member) /* left out where it is "", as from an older rendezvous */ \
    {.name = #member, .kind = DT_FIELD_TEXT, .optional = true, .at = offsetof(struct dt_status_run, spec.member), \
     .max = sizeof((struct dt_status_run *)0)->spec.member - 1}
#define WHOLE(type, member, min_) \
    {.name = #member, .kind = DT_FIELD_INT64, .at = offsetof(struct type, member), .min = min_, \
     .max = DT_FIELD_WHOLE_MAX}
#define PERHAPS_WHOLE(type, member) /* left out where it is 0 */ \
    {.name = #member, .kind = DT_FIELD_INT64, .optional = true, .at = offsetof(struct type, member), \
     .max = DT_FIELD_WHOLE_MAX}
#define PERHAPS_COUNTED(type, member, min_, max_) \
    {.name = #member, .kind = DT_FIELD_INT, .optional = true, .at = offsetof(struct type, member), .min = min_, \
     .max = max_}
#define SHARE(type, member) PERHAPS_COUNTED(type, member, 0, DT_SHARE_WHOLE)
#define PERHAPS_WORDS(type, member, size) \
    {.name = #member, .kind = DT_FIELD_STRING, .optional = true, .at = offsetof(struct type, member), .max = size - 1}
#define TRUTH(type, member) \
    {.name = #member, .kind = DT_FIELD_BOOL, .at = offsetof(struct type, member)}
#define PERHAPS_TRUE(type, member) \
    {.name = #member, .kind = DT_FIELD_BOOL, .optional = true, .at = offsetof(struct type, member)}

const struct dt_field dt_status_server_fields[] = {
    WORDS(dt_status_server, host, WORD_MAX),
    WORDS(dt_status_server, version, WORD_MAX),
    PERHAPS_WHOLE(dt_status_server, now_us),
    PERHAPS_WORDS(dt_status_server, http, DT_HTTP_PLACES_MAX),
    PERHAPS_WHOLE(dt_status_server, runs),
    PERHAPS_WHOLE(dt_status_server, most_runs),
    PERHAPS_WHOLE(dt_status_server, nodes),
    PERHAPS_WHOLE(dt_status_server, most_nodes),
    PERHAPS_WHOLE(dt_status_server, connections),
    PERHAPS_WHOLE(dt_status_server, most_connections),
    PERHAPS_WHOLE(dt_status_server, store_bytes),
    PERHAPS_WHOLE(dt_status_server, most_store_bytes),
    {0},
};

const struct dt_field dt_status_run_fields[] = {
    WORDS(dt_status_run, id, DT_RUN_ID_MAX),
    WORDS(dt_status_run, state, WORD_MAX),
    COUNTED(dt_status_run, round, -1),
    COUNTED(dt_status_run, world, 0),
    COUNTED(dt_status_run, nodes, 0),
    OF_SPEC("min", min_nodes),
    OF_SPEC("max", max_nodes),
    COUNTED(dt_status_run, restarts, 0),
    OF_SPEC("max_restarts", max_restarts),
    COUNTED(dt_status_run, losses, 0),
    WHOLE(dt_status_run, since_s, 0),
    WORDS(dt_status_run, master, MASTER_MAX),
    WORDS(dt_status_run, why, DT_WHY_MAX),
    PERHAPS_TRUE(dt_status_run, paused),
    PERHAPS_WORDS(dt_status_run, ended, WORD_MAX),
    TEXT_OF_SPEC(user),
    TEXT_OF_SPEC(script),
    TEXT_OF_SPEC(job),
    PERHAPS_WHOLE(dt_status_run, begun_s),
    PERHAPS_WORDS(dt_status_run, begun_on, DT_NODE_NAME_MAX),
    PERHAPS_TRUE(dt_status_run, own_token),
    PERHAPS_WHOLE(dt_status_run, step),
    PERHAPS_WHOLE(dt_status_run, steps),
    PERHAPS_WORDS(dt_status_run, loss, DT_LOSS_MAX),
    PERHAPS_WHOLE(dt_status_run, tokens_per_s),
    SHARE(dt_status_run, mfu),
    SHARE(dt_status_run, compute),
    SHARE(dt_status_run, comm),
    SHARE(dt_status_run, data),
    SHARE(dt_status_run, idle),
    {0},
};

const struct dt_field dt_status_node_fields[] = {
    WORDS(dt_status_node, name, DT_NODE_NAME_MAX),
    WORDS(dt_status_node, run, DT_RUN_ID_MAX),
    WORDS(dt_status_node, state, WORD_MAX),
    WORDS(dt_status_node, doing, WORD_MAX),
    COUNTED(dt_status_node, seat, -1),
    COUNTED(dt_status_node, workers, 0),
    WHOLE(dt_status_node, beat_age_s, 0),
    COUNTED(dt_status_node, round, -1),
    WHOLE(dt_status_node, step, -1),
    PERHAPS_WHOLE(dt_status_node, step_age_s),
    PERHAPS_WHOLE(dt_status_node, tokens_per_s),
    PERHAPS_WHOLE(dt_status_node, step_ms),
    PERHAPS_COUNTED(dt_status_node, gpus, 0, INT_MAX),
    PERHAPS_COUNTED(dt_status_node, gpu_busy, -1, 100),
    PERHAPS_WHOLE(dt_status_node, gpu_mem_mib),
    PERHAPS_WHOLE(dt_status_node, gpu_mem_total_mib),
    PERHAPS_WORDS(dt_status_node, disk, DT_DISK_MAX),
    PERHAPS_WHOLE(dt_status_node, disk_free_mib),
    PERHAPS_WHOLE(dt_status_node, disk_total_mib),
    PERHAPS_WHOLE(dt_status_node, upload_behind_s),
    PERHAPS_WORDS(dt_status_node, worker_ms, DT_WORKER_TIMES_MAX),
    {0},
};

const struct dt_field dt_status_excluded_fields[] = {
    WORDS(dt_status_excluded, name, DT_NODE_NAME_MAX),
    WORDS(dt_status_excluded, why, DT_WHY_MAX),
    WHOLE(dt_status_excluded, until_s, 0),
    COUNTED(dt_status_excluded, strikes, 0),
    TRUTH(dt_status_excluded, drained),
    WHOLE(dt_status_excluded, probation_s, 0),
    {0},
};

const struct dt_field dt_status_past_fields[] = {
    COUNTED(dt_status_past, round, 0),
    WHOLE(dt_status_past, ended_s, 0),
    WHOLE(dt_status_past, lasted_ms, 0),
    WHOLE(dt_status_past, lost_ms, -1),
    WHOLE(dt_status_past, first_step, -1),
    WHOLE(dt_status_past, last_step, -1),
    WORDS(dt_status_past, cause, DT_WHY_MAX),
    WORDS(dt_status_past, decided, DT_WHY_MAX),
    {0},
};
/* clang-format on */
