/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/wish.h"

#include "base/user.h"
#include "rendezvous/protocol/warrant.h"

/* RUN NULL: as the operator. */
static int sign(const char *file, const struct dt_proof_nonces *nonces, const char *run,
                struct dt_warrant *out, struct dt_err *err)
{
    const struct dt_proof_table *lib = dt_proof_open(err);
    struct dt_token token;
    if (!lib || dt_proof_read_token(file, &token, err) < 0)
        return -1;
    dt_warrant_make(lib, &token, run, nonces, out);
    dt_token_finish(&token);
    return 0;
}

int dt_ctl_wish(const struct dt_ctl_options *o, struct dt_sync_control *c,
                struct dt_message *request, struct dt_message *answer, struct dt_err *err)
{
    char user[DT_USER_MAX];
    struct dt_warrant warrant;
    bool of_operator = o->operator_token_file != NULL;
    const char *file = of_operator ? o->operator_token_file : o->run_token_file;
    request->user = dt_user_name(user);
    if (file && (of_operator || request->run)) {
        const char *run = of_operator ? NULL : request->run;
        if (sign(file, dt_sync_control_nonces(c), run, &warrant, err) < 0)
            return -1;
        request->key = warrant.key;
        request->signature = warrant.signature;
    }
    return dt_sync_control_ask(c, request, answer, err);
}
