/* SPDX-License-Identifier: Apache-2.0 */
#include "base/opt/complete.h"

#include <ctype.h>
#include <string.h>

typedef void print_row_fn(const struct dt_opt_program *p, const struct dt_opt *o, FILE *out);

static void each_row(const struct dt_opt_program *p, print_row_fn *print, FILE *out)
{
    for (const struct dt_opt *o = p->table; o->name; o++)
        if (!o->hidden)
            print(p, o, out);
    for (const struct dt_opt *o = dt_opt_builtins(p); o->name; o++)
        print(p, o, out);
}

/* A shell function's name cannot hold the dash of "dtrun-rendezvous". */
static void print_identifier(const char *name, FILE *out)
{
    for (; *name; name++)
        fputc(isalnum((unsigned char)*name) ? *name : '_', out);
}

/* What a shell shows beside a name: the first clause of the help. */
static const char *brief(const struct dt_opt *o, char *out, size_t size)
{
    snprintf(out, size, "%s", o->help ? o->help : "");
    for (char *c = out; *c; c++)
        if (strchr(".:;", *c) && (c[1] == ' ' || c[1] == '\0')) {
            *c = '\0';
            break;
        }
    return out;
}

/* TEXT inside '...', with the letters of SPECIAL behind a backslash. */
static void print_quoted(const char *text, const char *special, FILE *out)
{
    for (; *text; text++) {
        if (*text == '\'' && !strchr(special, '\''))
            fputs("'\\''", out);
        else if (strchr(special, *text))
            fprintf(out, "\\%c", *text);
        else
            fputc(*text, out);
    }
}

static void bash_name(const struct dt_opt_program *p, const struct dt_opt *o, FILE *out)
{
    (void)p;
    fprintf(out, " --%s%s", o->name, o->arg ? "=" : "");
}

#define BASH_FILES "compopt -o filenames; mapfile -t COMPREPLY < <(compgen -f -- \"$cur\")"

static void bash_case(const struct dt_opt_program *p, const struct dt_opt *o, FILE *out)
{
    (void)p;
    if (!o->arg)
        return;
    fprintf(out, "    --%s", o->name);
    if (o->letter)
        fprintf(out, "|-%c", o->letter);
    fputs(") ", out);
    if (o->words)
        fprintf(out, "COMPREPLY=($(compgen -W '%s' -- \"$cur\"))", o->words);
    else if (o->completes == DT_OPT_FILE)
        fputs(BASH_FILES, out);
    else if (o->completes == DT_OPT_DIRECTORY)
        fputs("compopt -o filenames; mapfile -t COMPREPLY < <(compgen -d -- \"$cur\")", out);
    else
        fputs(":", out);
    fputs("; return ;;\n", out);
}

static void bash_option_with_value(const struct dt_opt_program *p, const struct dt_opt *o,
                                   FILE *out)
{
    (void)p;
    if (o->arg)
        fprintf(out, "--%s ", o->name);
    if (o->arg && o->letter)
        fprintf(out, "-%c ", o->letter);
}

/* Whether both begin with the same word. */
static bool begins_alike(const char *one, const char *other)
{
    size_t n = strcspn(one, " ");
    return n == strcspn(other, " ") && memcmp(one, other, n) == 0;
}

static bool is_first_of_its_word(const struct dt_opt_program *p, const char *const *command)
{
    for (const char *const *c = p->commands; c < command; c++)
        if (begins_alike(*c, *command))
            return false;
    return true;
}

/* The words that a command can begin with, or those that stand behind that of FIRST. */
static void print_command_words(const struct dt_opt_program *p, const char *first, FILE *out)
{
    const char *between = "";
    for (const char *const *c = p->commands; *c; c++) {
        const char *space = strchr(*c, ' ');
        if (first ? !space || !begins_alike(*c, first) : !is_first_of_its_word(p, c))
            continue;
        if (first)
            fprintf(out, "%s%s", between, space + 1);
        else
            fprintf(out, "%s%.*s", between, (int)strcspn(*c, " "), *c);
        between = " ";
    }
}

static void bash_commands(const struct dt_opt_program *p, FILE *out)
{
    fputs("    else\n        case $operands in\n        '') COMPREPLY=($(compgen -W '", out);
    print_command_words(p, NULL, out);
    fputs("' -- \"$cur\")) ;;\n", out);
    for (const char *const *c = p->commands; *c; c++) {
        const char *space = strchr(*c, ' ');
        if (!space || !is_first_of_its_word(p, c))
            continue;
        bool files = strcmp(space, " FILE") == 0;
        fprintf(out, "        ' %.*s'%s) ", (int)(space - *c), *c, files ? "*" : "");
        if (files) {
            fputs(BASH_FILES, out);
        } else {
            fputs("COMPREPLY=($(compgen -W '", out);
            print_command_words(p, *c, out);
            fputs("' -- \"$cur\"))", out);
        }
        fputs(" ;;\n", out);
    }
    fputs("        esac\n", out);
}

/* Walks the words before the one at the cursor: $operands are those that are neither options nor
 * their values, each behind a space. */
static void bash_operands(const struct dt_opt_program *p, FILE *out)
{
    fputs("    local word value='' operands=''\n"
          "    for word in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do\n"
          "        if [[ $word == '=' ]]; then\n"
          "            value=1\n"
          "        elif [[ -n $value ]]; then\n"
          "            value=''\n",
          out);
    if (p->first_word)
        fprintf(out, "        elif [[ $word == '%s' ]]; then\n            :\n", p->first_word);
    fputs("        elif [[ $word != -* ]]; then\n"
          "            operands+=\" $word\"\n"
          "        elif [[ ' ",
          out);
    each_row(p, bash_option_with_value, out);
    fputs("' == *\" ${word//_/-} \"* ]]; then\n"
          "            value=1\n"
          "        fi\n"
          "    done\n",
          out);
    if (!p->commands) /* all behind the first one is its own */
        fputs("    if [[ -n $operands ]]; then\n"
              "        " BASH_FILES "\n"
              "        return 0\n"
              "    fi\n",
              out);
}

/* Bash splits words at '=' (COMP_WORDBREAKS), so in "--x=VAL" the option stands two words back. */
void dt_opt_print_bash(const struct dt_opt_program *program, FILE *out)
{
    fprintf(out, "# bash completion for %s; generated from its option table\n", program->name);
    print_identifier(program->name, out);
    fputs("_complete()\n{\n"
          "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}\n"
          "    COMPREPLY=()\n"
          "    if [[ $cur == '=' ]]; then\n"
          "        cur=\n"
          "    elif [[ $prev == '=' ]]; then\n"
          "        prev=${COMP_WORDS[COMP_CWORD-2]}\n"
          "    fi\n"
          "    [[ $prev == --* ]] && prev=${prev//_/-}\n",
          out);
    if (program->takes_operands)
        bash_operands(program, out);
    fputs("    case $prev in\n", out);
    each_row(program, bash_case, out);
    fputs("    esac\n    if [[ $cur == -* ]]; then\n        COMPREPLY=($(compgen -W '", out);
    each_row(program, bash_name, out);
    fputs("' -- \"${cur//_/-}\"))\n"
          "        [[ ${COMPREPLY[*]} == *= ]] && compopt -o nospace\n",
          out);
    if (program->commands)
        bash_commands(program, out);
    else if (program->takes_operands)
        fputs("    else\n        " BASH_FILES "\n", out);
    if (program->first_word)
        fprintf(out,
                "        [[ $COMP_CWORD == 1 ]] && COMPREPLY+=($(compgen -W '%s' -- \"$cur\"))\n",
                program->first_word);
    fputs("    fi\n    return 0\n}\ncomplete -F ", out);
    print_identifier(program->name, out);
    fprintf(out, "_complete %s\n", program->name);
}

static void zsh_spec(const struct dt_opt *o, const char *dashes, const char *name, FILE *out)
{
    char text[256];
    fprintf(out, "    '%s%s%s%s[", o->repeat ? "*" : "", dashes, name,
            !o->arg            ? ""
            : dashes[1] == '-' ? "="
                               : "+");
    print_quoted(brief(o, text, sizeof text), "\\[]:", out);
    fputc(']', out);
    if (o->arg) {
        fputc(':', out);
        print_quoted(o->arg, "\\:", out);
        fputc(':', out);
        if (o->words)
            fprintf(out, "(%s)", o->words);
        else if (o->completes)
            fputs(o->completes == DT_OPT_FILE ? "_files" : "_directories", out);
    }
    fputs("' \\\n", out);
}

static void zsh_row(const struct dt_opt_program *p, const struct dt_opt *o, FILE *out)
{
    char letter[2] = {o->letter, '\0'};
    (void)p;
    zsh_spec(o, "--", o->name, out);
    if (o->letter)
        zsh_spec(o, "-", letter, out);
}

/* All second words together: which first word stands there is not looked at. */
static void zsh_commands(const struct dt_opt_program *p, FILE *out)
{
    bool files = false;
    fputs("    '1:command:(", out);
    print_command_words(p, NULL, out);
    fputs(")' \\\n", out);
    for (const char *const *c = p->commands; *c; c++)
        files = files || (strchr(*c, ' ') && strcmp(strchr(*c, ' '), " FILE") == 0);
    if (files) {
        fputs("    '*::file:_files'\n", out);
        return;
    }
    fputs("    '2::word:(", out);
    for (const char *const *c = p->commands; *c; c++)
        if (strchr(*c, ' ') && is_first_of_its_word(p, c)) {
            print_command_words(p, *c, out);
            fputc(' ', out);
        }
    fputs(")' '3::name: '\n", out);
}

void dt_opt_print_zsh(const struct dt_opt_program *program, FILE *out)
{
    fprintf(out, "#compdef %s\n# generated from its option table\n_arguments -s -S \\\n",
            program->name);
    each_row(program, zsh_row, out);
    if (program->first_word)
        fprintf(out, "    '1:script:{_files; compadd %s}' \\\n", program->first_word);
    if (program->commands)
        zsh_commands(program, out);
    else
        fputs(program->takes_operands ? "    '*::file:_files'\n" : "    && return 0\n", out);
}

static void fish_row(const struct dt_opt_program *p, const struct dt_opt *o, FILE *out)
{
    char text[256];
    fprintf(out, "complete -c %s -l %s", p->name, o->name);
    if (o->letter)
        fprintf(out, " -s %c", o->letter);
    if (o->words)
        fprintf(out, " -x -a '%s'", o->words);
    else if (o->arg && o->completes == DT_OPT_DIRECTORY)
        fputs(" -x -a '(__fish_complete_directories)'", out);
    else if (o->arg)
        fputs(o->completes == DT_OPT_FILE ? " -r -F" : " -x", out);
    fputs(" -d '", out);
    print_quoted(brief(o, text, sizeof text), "\\'", out); /* fish's own rule inside '...' */
    fputs("'\n", out);
}

static void fish_commands(const struct dt_opt_program *p, FILE *out)
{
    fprintf(out, "complete -c %s -n __fish_use_subcommand -a '", p->name);
    print_command_words(p, NULL, out);
    fputs("'\n", out);
    for (const char *const *c = p->commands; *c; c++) {
        const char *space = strchr(*c, ' ');
        if (!space || !is_first_of_its_word(p, c))
            continue;
        fprintf(out, "complete -c %s -n '__fish_seen_subcommand_from %.*s' ", p->name,
                (int)(space - *c), *c);
        if (strcmp(space, " FILE") == 0) {
            fputs("-F\n", out);
            continue;
        }
        fputs("-a '", out);
        print_command_words(p, *c, out);
        fputs("'\n", out);
    }
}

void dt_opt_print_fish(const struct dt_opt_program *program, FILE *out)
{
    fprintf(out, "# fish completion for %s; generated from its option table\n", program->name);
    if (!program->takes_operands || program->commands)
        fprintf(out, "complete -c %s -f\n", program->name);
    if (program->commands)
        fish_commands(program, out);
    if (program->first_word)
        fprintf(out, "complete -c %s -n __fish_is_first_arg -a %s\n", program->name,
                program->first_word);
    each_row(program, fish_row, out);
}
