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

/* "_dtrun_ctl_list" */
static void print_lister(const struct dt_opt_program *p, FILE *out)
{
    fputc('_', out);
    print_identifier(p->name, out);
    fputs("_list", out);
}

/* "--endpoint|--token-file", or with the END "=*" behind each. */
static void print_listing_options(const struct dt_opt_program *p, const char *between,
                                  const char *begin, const char *end, FILE *out)
{
    for (const char *const *o = p->listing_options; *o; o++)
        fprintf(out, "%s%s--%s%s", o > p->listing_options ? between : "", begin, *o, end);
}

/* Of coreutils, as a program may wait for a name server, which has its own idea of how long. */
#define LIMIT "timeout 2"

/* Names come from afar: nothing of them is evaluated, and what goes into the line is quoted. Words
 * are taken of the line itself, as bash splits its own at '=' and ':'. */
static void bash_lister(const struct dt_opt_program *p, FILE *out)
{
    fputs(
        "# Offers what this program itself lists, at the place that the line names; nothing where "
        "that takes long, or fails.\n",
        out);
    print_lister(p, out);
    fputs("()\n{\n"
          "    local -a line given=()\n"
          "    local i name\n"
          "    read -ra line <<<\"${COMP_LINE:0:COMP_POINT}\"\n"
          "    for ((i = 1; i < ${#line[@]}; i++)); do\n"
          "        case ${line[i]} in\n"
          "        ",
          out);
    print_listing_options(p, "|", "", "", out);
    fputs(") given+=(\"${line[i]}\" \"${line[i + 1]-}\") ;;\n        ", out);
    print_listing_options(p, "|", "", "=*", out);
    fputs(") given+=(\"${line[i]}\") ;;\n"
          "        esac\n"
          "    done\n"
          "    while read -r name; do\n"
          "        [[ $name == \"$cur\"* ]] && printf -v name %q \"$name\" && "
          "COMPREPLY+=(\"$name\")\n"
          "    done < <(" LIMIT
          " \"${COMP_WORDS[0]}\" \"$@\" ${given[@]+\"${given[@]}\"} 2>/dev/null)\n"
          "}\n\n",
          out);
}

static void bash_listing(const struct dt_opt_program *p, const struct dt_opt_listing *l, FILE *out)
{
    fputs("        ", out);
    for (const char *const *c = l->commands; *c; c++)
        fprintf(out, "%s' %s'", c > l->commands ? "|" : "", *c);
    fputs(") ", out);
    print_lister(p, out);
    fprintf(out, " %s ;;\n", l->ask);
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
    for (const struct dt_opt_listing *l = p->listings; l && l->ask; l++)
        bash_listing(p, l, out);
    fputs("        esac\n", out);
}

/* Walks the words before the one at the cursor: $operands are those that are neither options nor
 * their values, each behind a space. Of "head:29400" bash makes three words. */
static void bash_operands(const struct dt_opt_program *p, FILE *out)
{
    fputs("    local word value='' operands=''\n"
          "    for word in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do\n"
          "        if [[ $word == [=:]* ]]; then\n"
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
    if (program->listings)
        bash_lister(program, out);
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

static bool is_two_words(const char *command)
{
    return strchr(command, ' ') != NULL;
}

/* The pattern of a case: commands of L that have TWO words, or one. */
static bool zsh_pattern(const struct dt_opt_listing *l, bool two, FILE *out)
{
    bool any = false;
    for (const char *const *c = l->commands; *c; c++) {
        if (is_two_words(*c) != two)
            continue;
        fprintf(out, "%s%s", any ? "|" : "    (", two ? "'" : "");
        fprintf(out, "%s%s", *c, two ? "'" : "");
        any = true;
    }
    return any;
}

static void zsh_listings(const struct dt_opt_program *p, bool two, FILE *out)
{
    for (const struct dt_opt_listing *l = p->listings; l->ask; l++) {
        if (!zsh_pattern(l, two, out))
            continue;
        fputs(") ", out);
        print_lister(p, out);
        fprintf(out, " %s ;;\n", l->ask);
    }
}

/* _arguments tells the words that are no options in $line, and values of options in $opt_args. */
static void zsh_lister(const struct dt_opt_program *p, FILE *out)
{
    print_lister(p, out);
    fputs("() {\n"
          "    local -a given names\n"
          "    local option\n"
          "    for option in ",
          out);
    print_listing_options(p, " ", "", "", out);
    fputs("; do\n"
          "        [[ -n ${opt_args[$option]-} ]] && given+=(\"$option\" "
          "\"${(Q)opt_args[$option]}\")\n"
          "    done\n"
          "    names=(\"${(@f)$(" LIMIT " \"$words[1]\" \"$@\" \"${given[@]}\" 2>/dev/null)}\")\n"
          "    [[ -n $names ]] && compadd -- \"${names[@]}\"\n"
          "}\n",
          out);
    print_lister(p, out);
    fputs("_second() {\n    case $line[1] in\n", out);
    zsh_listings(p, false, out);
    for (const char *const *c = p->commands; *c; c++) {
        if (!is_two_words(*c) || !is_first_of_its_word(p, c))
            continue;
        fprintf(out, "    (%.*s) compadd ", (int)strcspn(*c, " "), *c);
        print_command_words(p, *c, out);
        fputs(" ;;\n", out);
    }
    fputs("    esac\n}\n", out);
    print_lister(p, out);
    fputs("_third() {\n    case \"$line[1] $line[2]\" in\n", out);
    zsh_listings(p, true, out);
    fputs("    esac\n}\n", out);
}

static void zsh_listed_words(const struct dt_opt_program *p, FILE *out)
{
    fputs("    '2::word:", out);
    print_lister(p, out);
    fputs("_second' '3::name:", out);
    print_lister(p, out);
    fputs("_third'\n", out);
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
    if (p->listings) {
        zsh_listed_words(p, out);
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
    fprintf(out, "#compdef %s\n# generated from its option table\n", program->name);
    if (program->listings)
        zsh_lister(program, out);
    fputs("_arguments -s -S \\\n", out);
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

static void fish_lister(const struct dt_opt_program *p, FILE *out)
{
    fputs("function ", out);
    print_lister(p, out);
    fputs("\n"
          "    set -l words (commandline -opc)\n"
          "    set -l given\n"
          "    for i in (seq 2 (count $words))\n"
          "        switch $words[$i]\n"
          "            case ",
          out);
    print_listing_options(p, " ", "", "", out);
    fputs("\n"
          "                set given $given $words[$i] $words[(math $i + 1)]\n"
          "            case ",
          out);
    print_listing_options(p, " ", "'", "=*'", out);
    fputs("\n"
          "                set given $given $words[$i]\n"
          "        end\n"
          "    end\n",
          out);
    fprintf(out, "    command " LIMIT " %s $argv $given 2>/dev/null\nend\n", p->name);
}

static void fish_listing(const struct dt_opt_program *p, const struct dt_opt_listing *l, FILE *out)
{
    for (const char *const *c = l->commands; *c; c++) {
        const char *space = strchr(*c, ' ');
        fprintf(out, "complete -c %s -n '__fish_seen_subcommand_from %.*s", p->name,
                (int)strcspn(*c, " "), *c);
        if (space)
            fprintf(out, "; and __fish_seen_subcommand_from %s", space + 1);
        fputs("' -a '(", out);
        print_lister(p, out);
        fprintf(out, " %s)'\n", l->ask);
    }
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
        fprintf(out, "complete -c %s -n '__fish_seen_subcommand_from %.*s", p->name,
                (int)(space - *c), *c);
        if (strcmp(space, " FILE") == 0) {
            fputs("' -F\n", out);
            continue;
        }
        fputs("; and not __fish_seen_subcommand_from ", out);
        print_command_words(p, *c, out);
        fputs("' -a '", out);
        print_command_words(p, *c, out);
        fputs("'\n", out);
    }
    if (!p->listings)
        return;
    fish_lister(p, out);
    for (const struct dt_opt_listing *l = p->listings; l->ask; l++)
        fish_listing(p, l, out);
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
