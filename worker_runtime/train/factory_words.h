/* SPDX-License-Identifier: Apache-2.0 */
/* What people type behind `llamafactory-cli train`, as options of ours: a file, KEY=VALUE, and
 * --key value, of which a flag may have no value. */
#ifndef DT_WORKER_RUNTIME_TRAIN_FACTORY_WORDS_H
#define DT_WORKER_RUNTIME_TRAIN_FACTORY_WORDS_H

#include "base/opt/opt.h"

#define DT_FACTORY_COMMAND "llamafactory"

/* Behind the command, which is ARGV[1]: OUT becomes a line of PROGRAM with --llamafactory, whose
 * value is empty where no file is named, and a --set for each key. Options of ours that say more
 * than a key does stay what they are. End OUT with dt_opt_finish_strings() also after a failure. */
int dt_factory_words(const struct dt_opt_program *program, int argc, char *const *argv,
                     struct dt_opt_strings *out, struct dt_err *err);

#endif
