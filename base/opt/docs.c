/* SPDX-License-Identifier: Apache-2.0 */
#include "base/opt/docs.h"

#include "base/buf.h"

#include <ctype.h>
#include <string.h>

#define MDOC_WIDTH 76

/* One word of a text line; FIRST in its line, where a dot or quote would be a request. */
static void put_word(struct dt_buf *out, const char *word, size_t len, bool first)
{
    if (first && (*word == '.' || *word == '\''))
        dt_buf_put_str(out, "\\&");
    for (size_t i = 0; i < len; i++) {
        if (word[i] == '\\')
            dt_buf_put_str(out, "\\e");
        else if (word[i] == '`')
            dt_buf_put_str(out, "\\(ga"); /* a bare one would become a typographic quote */
        else
            dt_buf_put_u8(out, (uint8_t)word[i]);
    }
}

/* Running text: filled to MDOC_WIDTH, and each sentence begins a line, as mandoc asks. */
static void mdoc_text(const char *text, FILE *out)
{
    struct dt_buf line = {0};
    bool sentence_over = false;
    while (*text) {
        size_t n = strcspn(text, " ");
        if (line.len && (sentence_over || line.len + 1 + n > MDOC_WIDTH)) {
            fprintf(out, "%s\n", dt_buf_cstr(&line));
            dt_buf_clear(&line);
        }
        if (line.len)
            dt_buf_put_u8(&line, ' ');
        put_word(&line, text, n, line.len == 0);
        sentence_over = n > 0 && strchr(".!?", text[n - 1]) != NULL;
        text += n;
        text += strspn(text, " ");
    }
    if (line.len)
        fprintf(out, "%s%s\n", dt_buf_cstr(&line), sentence_over ? "" : ".");
    dt_buf_finish(&line);
}

/* Names of two or three letters may be macros ("Ar", "No"), and lone punctuation is moved out of
 * its macro. */
static bool needs_guard(const char *arg)
{
    size_t n = strlen(arg);
    return strchr("()[].,:;?!|'", *arg) || (n <= 3 && isupper((unsigned char)arg[0]));
}

/* TEXT as one argument of a macro. */
static void mdoc_arg(const char *text, FILE *out)
{
    bool quoted = *text == '\0' || strpbrk(text, " \t\"") != NULL;
    fputs(quoted ? " \"" : " ", out);
    if (needs_guard(text))
        fputs("\\&", out);
    for (; *text; text++) {
        if (*text == '\\')
            fputs("\\e", out);
        else if (*text == '"')
            fputs("\\(dq", out);
        else if (*text == '`')
            fputs("\\(ga", out);
        else
            fputc(*text, out);
    }
    if (quoted)
        fputc('"', out);
}

static void mdoc_row(const struct dt_opt_program *p, const struct dt_opt *o, FILE *out)
{
    char env[128];
    fputs(".It", out);
    if (o->letter)
        fprintf(out, " Fl %c ,", o->letter);
    fprintf(out, " Fl -%s", o->name);
    if (o->arg) {
        fputs(" Ar", out);
        mdoc_arg(o->arg, out);
    }
    fputc('\n', out);
    if (o->help) {
        char help[1024];
        snprintf(help, sizeof help, "%s", o->help);
        help[0] = (char)toupper((unsigned char)help[0]);
        mdoc_text(help, out);
    }
    if (o->repeat)
        fputs("Can be given several times.\n", out);
    if (o->arg && o->fallback && *o->fallback) {
        fputs("The default is\n.Ql", out);
        mdoc_arg(o->fallback, out);
        fputs(" .\n", out);
    }
    if (*dt_opt_env_name(p, o, env, sizeof env))
        fprintf(out, "In the environment:\n.Ev %s .\n", env);
}

void dt_opt_print_mdoc(const struct dt_opt_program *program, FILE *out)
{
    const struct dt_opt *table = program->table;
    for (const struct dt_opt *head = table; head->name; head++) {
        if (!dt_opt_opens_group(table, head))
            continue;
        fprintf(out, ".Ss %s\n.Bl -tag -width Ds\n", dt_opt_group(head));
        for (const struct dt_opt *o = head; o->name; o++)
            if (!o->hidden && strcmp(dt_opt_group(o), dt_opt_group(head)) == 0)
                mdoc_row(program, o, out);
        fputs(".El\n", out);
    }
    fputs(".Ss Other\n.Bl -tag -width Ds\n", out);
    for (const struct dt_opt *o = dt_opt_builtins(program); o->name; o++)
        mdoc_row(program, o, out);
    fputs(".El\n", out);
}
