/* SPDX-License-Identifier: Apache-2.0 */
#include "rendezvous/alerts/rule.h"

#define KIND(k) (UINT64_C(1) << DT_EVENT_##k)
/* The run goes on, or nobody waits for it any more. */
#define RUN_ENDED                                                                                  \
    (KIND(RUN_ENDED_WELL) | KIND(RUN_ENDED_BADLY) | KIND(RUN_STOPPED) | KIND(RUN_DESERTED))
#define WHOLE_AGAIN (KIND(ROUND_BEGAN) | RUN_ENDED)
#define ROUND_OVER (KIND(ROUND_ENDED) | RUN_ENDED)

/* clang-format off */
const struct dt_alert_rule dt_alert_rules[] = {
    {.name = "server_started", .scope = DT_ALERT_OF_SERVER, .weight = DT_EVENT_INFO,
     .raised_by = DT_EVENT_SERVER_STARTED,
     .advice = "jobs of the state folder go on by themselves; see why it had stopped: journalctl -u dtrun-rendezvous"},
    {.name = "run_ended_well", .scope = DT_ALERT_OF_RUN, .weight = DT_EVENT_INFO,
     .raised_by = DT_EVENT_RUN_ENDED_WELL, .advice = "nothing"},
    {.name = "run_ended_badly", .scope = DT_ALERT_OF_RUN, .weight = DT_EVENT_ERROR,
     .raised_by = DT_EVENT_RUN_ENDED_BADLY,
     .advice = "see why each round ended: dtrun-ctl history RUN; then give the launch line again"},
    {.name = "node_lost", .scope = DT_ALERT_OF_RUN, .weight = DT_EVENT_WARNING,
     .raised_by = DT_EVENT_NODE_LOST, .ended_by = WHOLE_AGAIN,
     .advice = "the job goes on without the node, or with a spare; see whether its host is up"},
    {.name = "node_quarantined", .scope = DT_ALERT_OF_NODE, .weight = DT_EVENT_ERROR,
     .raised_by = DT_EVENT_NODE_QUARANTINED,
     .advice = "look at the host; when it is well again: dtrun-ctl node undrain NODE"},
    {.name = "preflight_failed", .scope = DT_ALERT_OF_RUN, .weight = DT_EVENT_ERROR,
     .raised_by = DT_EVENT_PREFLIGHT_FAILED,
     .advice = "see to that host; dtrun doctor says more there, and --preflight full keeps jobs off such hosts"},
    {.name = "spares_exhausted", .scope = DT_ALERT_OF_RUN, .weight = DT_EVENT_WARNING,
     .raised_by = DT_EVENT_SPARES_EXHAUSTED, .lasting = 60 * DT_SECOND,
     .ended_by = KIND(SPARES_THERE) | KIND(SPARES_SHORT) | ROUND_OVER,
     .advice = "start dtrun on a further node: the next loss costs the job a node, or its round"},
    {.name = "below_min", .scope = DT_ALERT_OF_RUN, .weight = DT_EVENT_ERROR,
     .raised_by = DT_EVENT_BELOW_MIN, .ended_by = WHOLE_AGAIN,
     .advice = "start dtrun on as many nodes as are missing, before the job gives up"},
    {.name = "restart_storm", .scope = DT_ALERT_OF_RUN, .weight = DT_EVENT_ERROR,
     .raised_by = DT_EVENT_WORKER_FAILED, .times = 3, .within = 600 * DT_SECOND,
     .ended_by = RUN_ENDED,
     .advice = "see what fails again and again: dtrun-ctl history RUN; to hold the job up: dtrun-ctl run pause RUN"},
    {.name = "hang", .scope = DT_ALERT_OF_RUN, .weight = DT_EVENT_ERROR,
     .raised_by = DT_EVENT_HANG, .ended_by = KIND(HANG_OVER) | ROUND_OVER,
     .advice = "see where each worker stands: dtrun-ctl look RUN; to have such jobs restarted: --on-hang restart"},
    {.name = "straggler", .scope = DT_ALERT_OF_RUN, .weight = DT_EVENT_WARNING,
     .raised_by = DT_EVENT_STRAGGLER, .ended_by = KIND(STRAGGLER_OVER) | ROUND_OVER,
     .advice = "see what else the host does; to replace it by a spare: --on-straggler drain"},
    {.name = "loss_nan", .scope = DT_ALERT_OF_RUN, .weight = DT_EVENT_ERROR,
     .raised_by = DT_EVENT_LOSS_NAN, .ended_by = KIND(LOSS_OVER) | KIND(LOSS_SPIKE) | ROUND_OVER,
     .advice = "the model is lost: go back to a checkpoint of before, with a lower learning rate or other data"},
    {.name = "loss_spike", .scope = DT_ALERT_OF_RUN, .weight = DT_EVENT_WARNING,
     .raised_by = DT_EVENT_LOSS_SPIKE, .ended_by = KIND(LOSS_OVER) | KIND(LOSS_NAN) | ROUND_OVER,
     .advice = "look at the data and the learning rate of these steps; keep the checkpoints of before"},
    {.name = "no_progress", .scope = DT_ALERT_OF_RUN, .weight = DT_EVENT_ERROR,
     .raised_by = DT_EVENT_NO_PROGRESS, .ended_by = KIND(NO_PROGRESS_OVER) | ROUND_OVER,
     .advice = "see what the workers do: dtrun-ctl look RUN"},
    {.name = "disk_low", .scope = DT_ALERT_OF_RUN, .weight = DT_EVENT_WARNING,
     .raised_by = DT_EVENT_DISK_LOW, .ended_by = KIND(DISK_LOW_OVER) | RUN_ENDED,
     .advice = "make room before the next checkpoint: remove old ones; to limit logs: --keep-log-size"},
    {.name = "upload_behind", .scope = DT_ALERT_OF_RUN, .weight = DT_EVENT_WARNING,
     .raised_by = DT_EVENT_UPLOAD_BEHIND, .ended_by = KIND(UPLOAD_BEHIND_OVER) | RUN_ENDED,
     .advice = "see in the node's log why uploads fail or are slow; what is not uploaded is on the node alone"},
};
/* clang-format on */
const size_t dt_alert_rules_len = sizeof dt_alert_rules / sizeof dt_alert_rules[0];

_Static_assert(DT_EVENT_KINDS <= 64, "a bit each");
