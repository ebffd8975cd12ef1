/* SPDX-License-Identifier: Apache-2.0 */
#include "launcher/python/lc_ctype.h"
#include "tests/launcher/told.h"

#include <locale.h>

/* What Python 3.11 answers on Debian, which has C.UTF-8 and none of the locales of a country. */
TEST(as_python_decides)
{
    /* clang-format off */
    static const struct { const char *env, *coerced; } rows[] = {
        {"", "C.UTF-8"},
        {"LANG=", "C.UTF-8"},
        {"LANG=C", "C.UTF-8"},
        {"LANG=POSIX", "C.UTF-8"},
        {"LANG=C.UTF-8", NULL},
        {"LANG=C.utf8", NULL},
        {"LANG=xx_XX.UTF-8", "C.UTF-8"}, /* it is not there, so C it is */
        {"LANG=../C", "C.UTF-8"},
        {"LC_CTYPE=C|LANG=C.UTF-8", "C.UTF-8"},
        {"LC_CTYPE=|LANG=C.UTF-8", NULL},
        {"LC_CTYPE=xx|LANG=C.UTF-8", "C.UTF-8"},
        {"LC_CTYPE=C.UTF-8|LANG=C", NULL},
        {"LC_ALL=", "C.UTF-8"},
        {"LC_ALL=C", NULL},
        {"LC_ALL=POSIX|LANG=C", NULL},
        {"LC_ALL=xx_XX", NULL},
        {"PYTHONCOERCECLOCALE=0", NULL},
        {"PYTHONCOERCECLOCALE=", "C.UTF-8"},
        {"PYTHONCOERCECLOCALE=warn", "C.UTF-8"},
        {"LANGUAGE=de", "C.UTF-8"},
    };
    /* clang-format on */
    locale_t utf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
    if (!utf8)
        SKIP("this machine has no locale C.UTF-8");
    freelocale(utf8);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[64], *env[8];
        snprintf(text, sizeof text, "%s", rows[i].env);
        told_split(text, env);
        struct dt_facts facts = {.env = env};
        const char *coerced = dt_lc_ctype_coerced(&facts);
        CHECK_ROW("%s", rows[i].env);
        CHECK_STR(coerced ? coerced : "as it is", rows[i].coerced ? rows[i].coerced : "as it is");
    }
}
