/* SPDX-License-Identifier: Apache-2.0 */
/* Values of options as they are written, for the rows of options.c (base/opt.h): each function
 * reads one into the member that its row names. -1 and *err: it is none. */
#ifndef DT_LAUNCHER_VALUES_H
#define DT_LAUNCHER_VALUES_H

#include "base/err.h"

#include <stdbool.h>

/* What torchrun's parser checks. */
int dt_value_int(const char *value, void *target, struct dt_err *err);
int dt_value_float(const char *value, void *target, struct dt_err *err);
int dt_value_seconds(const char *value, void *target, struct dt_err *err);
int dt_value_start_method(const char *value, void *target, struct dt_err *err);
int dt_value_numa_binding(const char *value, void *target, struct dt_err *err);
int dt_value_pet_flag(const char *value, bool *on, struct dt_err *err);

/* dtrun's own. */
int dt_value_exit_code(const char *value, void *target, struct dt_err *err);
int dt_value_stop_order(const char *value, void *target, struct dt_err *err);
int dt_value_keep_workers(const char *value, void *target, struct dt_err *err);
int dt_value_keep_logs(const char *value, void *target, struct dt_err *err);
int dt_value_size(const char *value, void *target, struct dt_err *err);
int dt_value_hang_after(const char *value, void *target, struct dt_err *err);
int dt_value_on_hang(const char *value, void *target, struct dt_err *err);
int dt_value_on_straggler(const char *value, void *target, struct dt_err *err);
int dt_value_preflight(const char *value, void *target, struct dt_err *err);
int dt_value_compute(const char *value, void *target, struct dt_err *err);
int dt_value_look_signal(const char *value, void *target, struct dt_err *err);
int dt_value_nccl_profiler(const char *value, void *target, struct dt_err *err);
int dt_value_omp_threads(const char *value, void *target, struct dt_err *err);
int dt_value_signals(const char *value, void *target, struct dt_err *err);
int dt_value_spare_policy(const char *value, void *target, struct dt_err *err);
int dt_value_rank_policy(const char *value, void *target, struct dt_err *err);
int dt_value_daemon_loss(const char *value, void *target, struct dt_err *err);
int dt_value_node_losses(const char *value, void *target, struct dt_err *err);
int dt_value_restart_reset(const char *value, void *target, struct dt_err *err);
int dt_value_spares(const char *value, void *target, struct dt_err *err);
int dt_value_node_name(const char *value, void *target, struct dt_err *err);
int dt_value_domain(const char *value, void *target, struct dt_err *err);
int dt_value_quarantine_time(const char *value, void *target, struct dt_err *err);
int dt_value_store_listen(const char *value, void *target, struct dt_err *err);
int dt_value_health_address(const char *value, void *target, struct dt_err *err);
int dt_value_http(const char *value, void *target, struct dt_err *err);
int dt_value_pid(const char *value, void *target, struct dt_err *err);
int dt_value_port(const char *value, void *target, struct dt_err *err);

#endif
