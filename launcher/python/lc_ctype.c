/* SPDX-License-Identifier: Apache-2.0 */
#include "launcher/python/lc_ctype.h"

#include <langinfo.h>
#include <locale.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

static bool is_set(const char *value)
{
    return value && *value;
}

/* Whether NAME can be loaded and tells an encoding. */
static bool is_usable(const char *name)
{
    locale_t l = newlocale(LC_CTYPE_MASK, name, (locale_t)0);
    if (!l)
        return false;
    bool usable = *nl_langinfo_l(CODESET, l) != '\0';
    freelocale(l);
    return usable;
}

/* Whether a program that starts is in the C locale. It is in that one too when it asks for a locale
 * that this machine does not have. */
static bool is_c_locale(const struct dt_facts *facts)
{
    const char *name = dt_facts_env(facts, "LC_CTYPE");
    if (!is_set(name))
        name = dt_facts_env(facts, "LANG");
    return !is_set(name) || strcmp(name, "C") == 0 || strcmp(name, "POSIX") == 0 ||
           !is_usable(name);
}

const char *dt_lc_ctype_coerced(const struct dt_facts *facts)
{
    static const char *const targets[] = {"C.UTF-8", "C.utf8", "UTF-8"};
    const char *asked = dt_facts_env(facts, "PYTHONCOERCECLOCALE");
    if ((asked && strcmp(asked, "0") == 0) || is_set(dt_facts_env(facts, "LC_ALL")) ||
        !is_c_locale(facts))
        return NULL;
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++)
        if (is_usable(targets[i]))
            return targets[i];
    return NULL;
}
