/* SPDX-License-Identifier: Apache-2.0 */
/* dtrun-train: one worker of a training run, or all of it. */
#include "base/fs.h"
#include "base/json_write.h"
#include "base/say.h"
#include "worker_runtime/config/merge.h"
#include "worker_runtime/llamafactory/llamafactory.h"
#include "worker_runtime/program/inside.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The exit status of having printed: a full disk is no success. */
static int printed(void)
{
    if (fflush(stdout) == 0)
        return 0;
    perror("dtrun-train: standard output");
    return 1;
}

/* Once for the job: all ranks read the same configuration. */
static void warn(const struct dt_train_args *a, struct dt_buf *warnings)
{
    if (program_number("RANK", 0) == 0 && !a->rescue)
        dt_say_lines(DT_TRAIN_PROGRAM, dt_buf_cstr(warnings));
}

/* The words of --set, and behind them --init-from as the key that it stands for, written into INIT:
 * so a configuration without a model.config has the model of that folder. A rescue opens no data,
 * so it waits for no sum of datasets, which may be large, or gone. Free the result. */
static const char **overrides_of(const struct dt_train_args *a, struct dt_buf *init)
{
    struct dt_json_writer w = {.out = init};
    const char **all = calloc(a->set.len + 4, sizeof *all); /* ends with NULL */
    size_t count = 0;
    while (all && count < a->set.len) {
        all[count] = a->set.at[count];
        count++;
    }
    if (all && a->rescue && a->llamafactory) {
        all[count++] = "data.train=\"none\"";
        all[count++] = "data.validation=\"none\""; /* some keys want one */
    }
    if (all && a->init_from && *a->init_from) {
        dt_buf_put_str(init, "model.weights=");
        dt_json_put_text(&w, NULL, a->init_from);
        all[count] = dt_buf_cstr(init);
    }
    return all;
}

static const char *read_from(const struct dt_train_args *a)
{
    return a->estimate ? a->estimate : a->suggest ? a->suggest : a->config;
}

/* OVERRIDE stands for it. */
static void blame_init_from(const struct dt_train_args *a, const char *override, struct dt_err *err)
{
    char name[120];
    snprintf(name, sizeof name, "--init-from %.80s", a->init_from);
    dt_merge_rename(err, override, name);
}

/* F is an empty one where the configuration is no file of LLaMA-Factory's. */
static int load(const struct dt_train_args *a, struct dt_factory *f, struct dt_config *c,
                struct dt_err *err)
{
    struct dt_buf warnings = {0}, init = {0};
    const char **overrides = overrides_of(a, &init);
    if (!overrides)
        return dt_err_set(err, DT_E_MEMORY, "no memory for --set");
    int rc = a->llamafactory
                 ? dt_factory_load(f, c, a->llamafactory, overrides, &warnings, err)
                 : dt_config_load(c, read_from(a), a->deepspeed, overrides, &warnings, err);
    if (rc < 0 && init.len)
        blame_init_from(a, dt_buf_cstr(&init), err);
    free(overrides);
    dt_buf_finish(&init);
    warn(a, &warnings);
    dt_buf_finish(&warnings);
    return rc;
}

static void say_line(const char *line)
{
    dt_say(DT_TRAIN_PROGRAM, line);
}

/* Data first, by any one of the ranks: what is wrong with them is said by the one that meets it. */
static int train_on(const struct dt_train_args *a, const struct dt_factory *factory,
                    struct dt_config *c, struct failure *f)
{
    struct dt_train_args of_file = *a;
    if (dt_factory_make_tokens(factory, c, say_line, &f->err) < 0) {
        f->err.code = DT_E_RUNTIME;
        return -1;
    }
    if (factory->resume && strcmp(a->resume, "auto") == 0)
        of_file.resume = factory->resume;
    return program_train(&of_file, c, f);
}

static int run(const struct dt_train_args *a, struct failure *f)
{
    struct dt_err *err = &f->err;
    struct dt_config config = {0};
    struct dt_factory factory = {0};
    if (a->command)
        return program_carry_out(a, err);
    if (a->verify)
        return program_verify(a, err);
    if (a->check_nccl)
        return program_check_nccl(err);
    int rc = load(a, &factory, &config, err);
    f->of_configuration = rc < 0;
    if (rc == 0 && a->print_config)
        puts(config.document);
    else if (rc == 0)
        rc = a->estimate  ? program_estimate(a, &config, err)
             : a->suggest ? program_suggest(a, &config, err)
             : a->rescue  ? program_rescue(a, &config, err)
                          : train_on(a, &factory, &config, f);
    dt_config_finish(&config);
    dt_factory_finish(&factory);
    return rc;
}

int main(int argc, char **argv)
{
    struct dt_train_args args;
    struct dt_opt_result result;
    struct failure failure = {0};
    int status = 0;
    dt_fs_fill_standard_fds();
    if (dt_train_args_read(&args, argc, argv, &result, &failure.err) < 0)
        status = program_say_failure(&failure);
    else if (result.help)
        dt_opt_help(&dt_train_program, stdout);
    else if (result.version)
        puts("dtrun-train " DT_VERSION);
    else if (run(&args, &failure) < 0)
        status = program_say_failure(&failure);
    dt_train_args_finish(&args);
    if (program_told_to_end)
        return program_die_by(program_told_to_end);
    int failed = printed();
    return status ? status : failed;
}
