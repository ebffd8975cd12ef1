/* SPDX-License-Identifier: Apache-2.0 */
/* dtrun-rendezvous: read the options, serve, say why not. */
#include "base/fs.h"
#include "base/log.h"
#include "base/say.h"
#include "rendezvous/daemon/daemon.h"

#include <stdio.h>

/* The exit status of having printed: a full disk is no success. */
static int printed(void)
{
    if (fflush(stdout) == 0)
        return 0;
    perror("dtrun-rendezvous: standard output");
    return 1;
}

int main(int argc, char **argv)
{
    struct dt_rendezvous_options options;
    struct dt_opt_result result;
    struct dt_err err;
    dt_fs_fill_standard_fds();
    if (dt_rendezvous_options_read(&options, argc, argv, &result, &err) < 0) {
        dt_rendezvous_options_finish(&options);
        dt_say("dtrun-rendezvous", err.text);
        return dt_err_exit_status(&err);
    }
    if (result.help) {
        dt_opt_help(&dt_rendezvous_program, stdout);
        return printed();
    }
    if (result.version) {
        puts("dtrun-rendezvous " DT_VERSION);
        return printed();
    }
    if (options.check_config) {
        dt_rendezvous_options_finish(&options);
        puts("the configuration is good");
        return printed();
    }
    dt_log_open("dtrun-rendezvous", options.log_level, options.log_format);
    if (dt_daemon_run(&options, argc, argv, &err) < 0) {
        dt_error("%s", err.text);
        return dt_err_exit_status(&err);
    }
    return 0;
}
