/* SPDX-License-Identifier: Apache-2.0 */
#include "rendezvous/rdzv/futility.h"

#include <stdio.h>

enum dt_futility_answer dt_futility_note(struct dt_futility *f, const struct dt_result *result)
{
    struct dt_futility last = *f;
    *f = (struct dt_futility){0};
    if (!result->early || result->retry == DT_RETRY_MAY_HELP)
        return DT_FUTILITY_NOT_KNOWN;
    if (result->retry == DT_RETRY_CANNOT_HELP)
        return DT_FUTILITY_OF_KIND;
    if (!result->place || !*result->place)
        return DT_FUTILITY_NOT_KNOWN;
    snprintf(f->signature, sizeof f->signature, "%s", result->signature);
    snprintf(f->place, sizeof f->place, "%s", result->place);
    bool same = strcmp(f->signature, last.signature) == 0 && strcmp(f->place, last.place) == 0;
    return same ? DT_FUTILITY_REPEATED : DT_FUTILITY_NOT_KNOWN;
}

const char *dt_futility_text(enum dt_futility_answer a)
{
    switch (a) {
    case DT_FUTILITY_NOT_KNOWN:
        break;
    case DT_FUTILITY_OF_KIND:
        return "a retry cannot help, so there is none (--retry-deterministic makes it)";
    case DT_FUTILITY_REPEATED:
        return "it failed in the same way twice, before any step, so there is no further retry "
               "(--retry-deterministic makes it)";
    }
    return "";
}
