/* SPDX-License-Identifier: Apache-2.0 */
/* dtrun-rendezvous: read the options, serve, say why not. */
#include "base/log.h"
#include "rendezvous/daemon.h"

#include <stdio.h>

int main(int argc, char **argv)
{
    struct dt_rendezvous_options options;
    struct dt_opt_result result;
    struct dt_err err;
    if (dt_rendezvous_options_read(&options, argc, argv, &result, &err) < 0) {
        dt_rendezvous_options_finish(&options);
        fprintf(stderr, "dtrun-rendezvous: %s\n", err.text);
        return dt_err_exit_status(&err);
    }
    if (result.help) {
        dt_opt_help(&dt_rendezvous_program, stdout);
        return 0;
    }
    if (result.version) {
        puts("dtrun-rendezvous " DT_VERSION);
        return 0;
    }
    if (options.check_config) {
        dt_rendezvous_options_finish(&options);
        puts("the configuration is good");
        return 0;
    }
    dt_log_open("dtrun-rendezvous", options.log_level, options.log_format);
    if (dt_daemon_run(&options, argc, argv, &err) < 0) {
        dt_error("%s", err.text);
        return dt_err_exit_status(&err);
    }
    return 0;
}
