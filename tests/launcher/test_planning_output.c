/* SPDX-License-Identifier: Apache-2.0 */
/* Where what the workers print goes, and which files are kept. */
#include "tests/launcher/told.h"

#include <sys/stat.h>

/* clang-format off */
TEST(output)
{
    static const struct told_row rows[] = {
        {"--nproc-per-node=3|-t|3|-r0:1|x", "", "output of local rank 0: redirects stdout, tees stdout and stderr, shown|"
         "output of local rank 1-2: redirects nothing, tees stdout and stderr, shown", NULL, 0},
        {"-r|0:3,7:1|x", "", "output of local rank 0: redirects stdout and stderr, tees nothing, shown|"
         "ignored: --redirects has no effect: for local rank 7: the last one is 0", NULL, 0},
        {"--nproc-per-node=12|--tee=10:1|x", "", "output of local rank 0-9: redirects nothing, tees nothing, shown|"
         "output of local rank 10: redirects nothing, tees stdout, shown|"
         "output of local rank 11: redirects nothing, tees nothing, shown", NULL, 0},
        {"--nproc-per-node=2|--local-ranks-filter=1|x", "",
         "output of local rank 0: redirects nothing, tees nothing, hidden|"
         "output of local rank 1: redirects nothing, tees nothing, shown", NULL, 0},
        {"--log-dir=/dev/null|-t3|--keep-logs=failed|x", "", "log folder: none|"
         "output of local rank 0: redirects nothing, tees nothing, shown|"
         "ignored: --tee has no effect: --log-dir=/dev/null keeps no files|"
         "ignored: --keep-logs has no effect: --log-dir=/dev/null keeps none", NULL, 0},
        {"--log-dir=/tmp/not/there/yet|--keep-logs=failed|x", "",
         "log folder: /tmp/not/there/yet|keep logs: failed", NULL, 0},
        {"--log-dir=|x", "", "log folder: a fresh one in a temporary folder", NULL, 0},
        {"--log-dir=/tmp/not|--keep-log-runs=5|--keep-log-days=7|--keep-log-size=20G|x", "",
         "earlier runs kept: at most 5, for 7 days, up to 20 GiB", NULL, 0},
        {"--log-dir=/tmp/not|--keep-log-size=512|x", "", "earlier runs kept: up to 512 B", NULL, 0},
        {"--whole-lines|x", "", "whole lines: yes", NULL, 0},
        {"--whole-lines|--inherit-streams|x", "", "ignored: --whole-lines has no effect: --inherit-streams lets workers write "
         "themselves", NULL, 0},
        {"--keep-log-runs=5|x", "", "ignored: --keep-log-runs has no effect: without --log-dir each run has a temporary "
         "folder of its own", NULL, 0},
        {"--log-dir=/dev/null|--keep-log-days=5|x", "", "ignored: --keep-log-days has no effect: --log-dir=/dev/null keeps "
         "none", NULL, 0},
        {"-t1|--duplicate-stdout-filters=a,,b,c d|--duplicate-stderr-filters=e|x", "",
         "stdout filters: a,b 'c d'|stderr filters: e", NULL, 0},
        {"--collapse-lines|--partial-line-after=1s|x", "", "collapse lines: yes|partial lines after: 1 s|"
         "ignored: --collapse-lines has no effect: no output is teed; give --tee|"
         "ignored: --partial-line-after has no effect: no output is teed; give --tee", NULL, 0},
        {"--strip-codes|--inherit-streams|x", "", "strip codes: yes|inherit streams: yes", NULL, 0},
        {"x", "TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE=[${rank}] ", "line prefix: '[${rank}] '", NULL, 0},
        {"x", "TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE=", "line prefix: '[${role_name}${local_rank}]:'", NULL, 0},
        {"--event-log-handler=console|x", "", "events: console", NULL, 0},
        {"--event-log-handler=file:/x|x", "", "events: file:/x", NULL, 0},

        {"--event-log-handler=file:|x", "", NULL,
         "--event-log-handler: \"file:\" is no place for events; give null, console or file:PATH", 1},
        {"-r|4|x", "", NULL, "--redirects: \"4\" is neither 0, 1 (stdout), 2 (stderr) or 3 (both), nor a list as "
         "0:3,1:2 of what each local rank has", 1},
        {"x", "PET_TEE=", NULL, "PET_TEE: \"\" is neither 0, 1 (stdout), 2 (stderr) or 3 (both), nor a list as "
         "0:3,1:2 of what each local rank has", 1},
        {"--local-ranks-filter=0,x|x", "", NULL,
         "--local-ranks-filter: \"x\" is no local rank; write them as 0,2,3", 1},
        {"--log-dir=/etc/passwd|x", "", NULL,
         "--log-dir: /etc/passwd is a file; name a folder, or /dev/null for none", 1},
        {"--log-dir=/etc/passwd/x|x", "", NULL, "--log-dir: \"/etc/passwd/x\" cannot be used: Not a directory", 1},
        {"--logs-specs=default|-r|3|x", "", "output of local rank 0: redirects stdout and stderr, tees nothing, shown", NULL, 0},
        {"--logs-specs=mine|x", "", NULL, "--logs-specs: \"mine\" is a Python plug-in, which dtrun cannot load; give "
         "--log-dir, --redirects and --tee, or run the job with torchrun", 1},
    };
    TOLD_ROWS(&dt_launch_program, rows);
}

TEST(uploads)
{
    static const struct told_row rows[] = {
        {"--upload=w=s3://bucket/p|x", "", "upload: w to s3://bucket/p|upload command: none|upload after: 10 s|upload timeout: 10 min", NULL, 0},
        {"--upload=a=b/=file:///c=d|--upload=e=s3://farm|x", "", "upload: a=b to file:///c=d|upload: e to s3://farm", NULL, 0},
        {"--upload=w|--upload-cmd=cp $DTRUN_UPLOAD_FILE /|--upload-after=1m|x", "",
         "upload: w to wherever|upload command: 'cp $DTRUN_UPLOAD_FILE /'|upload after: 1 min", NULL, 0},
        {"--upload-after=1s|x", "", "ignored: --upload-after has no effect: no --upload names a folder", NULL, 0},
        {"--upload=w|x", "", NULL, "--upload: where to? Write w=s3://BUCKET/PREFIX or w=file:///FOLDER, or give a "
         "command with --upload-cmd", 2},
        {"--upload==s3://bucket|x", "", NULL, "--upload: \"=s3://bucket\" names no folder; write DIR=URL", 2},
        {"--upload=w=s3://|x", "", NULL, "--upload: \"s3://\" is no place for objects: that is no name of a bucket; write "
         "s3://BUCKET/PREFIX or file:///FOLDER", 2},
        {"--upload=/w=file:///wide|--upload=/w/c=file:///w|x", "", "upload: /w to file:///wide|upload: /w/c to file:///w", NULL, 0},
        {"--upload=/w=file:///w/c|x", "", NULL,
         "--upload: file:///w/c is in /w, so each copy would be copied again; name a folder outside of /w", 2},
        {"--upload=/w/=file:///w|x", "", NULL, "--upload: file:///w is in /w, so each copy would be copied again; "
         "name a folder outside of /w", 2},
        {"--upload=/=file:///w|x", "", NULL, "--upload: file:///w is in /, so each copy would be copied again; name a folder "
         "outside of /", 2},
        {"--upload=/proc/self/root/w=file:///w/c|x", "", NULL, "--upload: file:///w/c is in /proc/self/root/w, so each copy would "
         "be copied again; name a folder outside of /proc/self/root/w", 2},
    };
    TOLD_ROWS(&dt_launch_program, rows);
}
/* clang-format on */

TEST(a_log_folder_that_cannot_be_written)
{
    char dir[] = "/tmp/dtrun-test-config.XXXXXX", args[128], wanted[256];
    struct told t;
    if (geteuid() == 0)
        SKIP("root can write everywhere");
    CHECK(mkdtemp(dir) && chmod(dir, 0500) == 0);
    snprintf(args, sizeof args, "--log-dir=%s/sub/dir|x", dir);
    told_tell(&t, &dt_launch_program, args, "");
    rmdir(dir);
    snprintf(wanted, sizeof wanted, "--log-dir: nothing can be written in %s: Permission denied; ",
             dir);
    CHECK_FAIL(t.rc, t.err, wanted);
    told_finish(&t);
}
