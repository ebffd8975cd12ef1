/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_runtime/train/factory_words.h"

#include "base/buf.h"

#include <string.h>

struct words {
    const struct dt_opt_program *program;
    char *const *next, *const *end;
    struct dt_opt_strings *out;
    const char *file;
    struct dt_err *err;
};

/* The row of ours that NAME spells, where a key of LLaMA-Factory's has not that name: --template
 * and --seed, for one, are keys there. */
static const struct dt_opt *find_own(const struct words *w, const char *name, size_t len)
{
    static const char *const own[] = {"set",  "resume",  "init-from",  "print-config",
                                      "help", "version", "local-rank", "rescue"};
    const struct dt_opt *o = dt_opt_named(w->program, name, len);
    for (size_t i = 0; o && i < sizeof own / sizeof *own; i++)
        if (strcmp(o->name, own[i]) == 0)
            return o;
    return NULL;
}

static int put(struct words *w, const char *word)
{
    return dt_opt_append(word, w->out, w->err);
}

static int put_set(struct words *w, const char *key, size_t len, const char *value)
{
    struct dt_buf text = {0};
    for (size_t i = 0; i < len; i++)
        dt_buf_put_u8(&text, key[i] == '-' ? '_' : (uint8_t)key[i]);
    dt_buf_put_u8(&text, '=');
    dt_buf_put_str(&text, value);
    int rc = text.bad ? dt_err_set(w->err, DT_E_MEMORY, "no memory for the command line")
             : put(w, "--set") < 0 ? -1
                                   : put(w, dt_buf_cstr(&text));
    dt_buf_finish(&text);
    return rc;
}

static bool is_option(const char *word)
{
    return strncmp(word, "--", 2) == 0;
}

/* The word behind an option, which is its value; NULL: there is none. */
static const char *take_value(struct words *w)
{
    return w->next < w->end && !is_option(*w->next) ? *w->next++ : NULL;
}

static int take_option(struct words *w, const char *word)
{
    const char *name = word + 2;
    size_t len = strcspn(name, "=");
    const struct dt_opt *own = find_own(w, name, len);
    if (own) {
        if (put(w, word) < 0)
            return -1;
        const char *value = own->arg && !name[len] ? take_value(w) : NULL;
        return value ? put(w, value) : 0;
    }
    const char *value = name[len] ? name + len + 1 : take_value(w);
    return put_set(w, name, len, value ? value : "true");
}

static int take_word(struct words *w, const char *word)
{
    size_t len = strcspn(word, "=");
    if (is_option(word))
        return take_option(w, word);
    if (word[0] == '-' && word[1])
        return put(w, word); /* -h; what no option has is refused by its letter */
    if (word[len] && !memchr(word, '/', len))
        return put_set(w, word, len, word + len + 1);
    if (w->file)
        return dt_err_set(w->err, DT_E_USAGE,
                          DT_FACTORY_COMMAND ": what is \"%.60s\"? It takes one file, and keys as "
                                             "KEY=VALUE or --KEY VALUE",
                          word);
    w->file = word;
    return 0;
}

/* People put `dtrun-train llamafactory` where `llamafactory-cli` stands, in front of its own word
 * for training. */
static bool is_its_command(char *const *word, char *const *end)
{
    return word < end && strcmp(*word, "train") == 0;
}

int dt_factory_words(const struct dt_opt_program *program, int argc, char *const *argv,
                     struct dt_opt_strings *out, struct dt_err *err)
{
    struct words w = {program, argv + 2, argv + argc, out, NULL, err};
    if (put(&w, argv[0]) < 0)
        return -1;
    if (is_its_command(w.next, w.end))
        w.next++;
    while (w.next < w.end)
        if (take_word(&w, *w.next++) < 0)
            return -1;
    return put(&w, "--llamafactory") < 0 ? -1 : put(&w, w.file ? w.file : "");
}
