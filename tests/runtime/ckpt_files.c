/* SPDX-License-Identifier: Apache-2.0 */
/* For tests/system/torch_safetensors.py:
 *
 *     ckpt_files write DIR TYPE    a checkpoint of step 3 by three ranks; parameter I of tensor N
 *                                  in payload order is as value_of() says
 *     ckpt_files list FILE         name, type, shape and offsets of each tensor
 *     ckpt_files weights DIR       a Hugging Face folder's parameters as this model's, one a line
 */
#include "tests/runtime/checkpoints.h"

static int usage(void)
{
    fputs("ckpt_files write DIR TYPE | list FILE | weights DIR\n", stderr);
    return 2;
}

static int fail(const struct dt_err *err)
{
    fprintf(stderr, "%s\n", err->text);
    return 1;
}

static int list(const char *path)
{
    struct dt_st_file f;
    struct dt_err err;
    if (dt_st_open(&f, path, &err) < 0)
        return fail(&err);
    for (size_t i = 0; i < f.count; i++) {
        const struct dt_st_tensor *t = &f.tensors[i];
        printf("%s %s", t->name, t->type == DT_DTYPES ? "-" : dt_st_type_name(t->type));
        printf(" %llu %llu", (unsigned long long)(t->begin), (unsigned long long)t->end);
        for (int d = 0; d < t->rank; d++)
            printf(" %llu", (unsigned long long)t->dims[d]);
        putchar('\n');
    }
    dt_st_close(&f);
    return 0;
}

static int weights(const char *folder)
{
    struct model m = model_make();
    struct dt_ckpt_model saved = model_saved(&m);
    struct dt_err err;
    struct dt_ckpt_weights *w = dt_ckpt_weights_open(folder, &saved, &err);
    if (!w)
        return fail(&err);
    for (size_t i = 0; i < m.count; i++)
        for (size_t k = 0; k < m.tensors[i].count; k++) {
            float x;
            if (dt_ckpt_weights_read(w, i, k, 1, &x, &err) < 0)
                return fail(&err);
            printf("%.9g\n", (double)x);
        }
    dt_ckpt_weights_close(w);
    free(m.tensors);
    return 0;
}

static int write_one(const char *folder, const char *name)
{
    for (int type = 0; type < DT_DTYPES; type++)
        if (strcmp(dt_st_type_name(type), name) == 0) {
            save_once(folder, 3, type, 3);
            return 0;
        }
    return usage();
}

/* check.h has a main() of its own, which ckpt_files_main.c takes the place of. */
int ckpt_files(int argc, char **argv);

int ckpt_files(int argc, char **argv)
{
    if (argc == 4 && strcmp(argv[1], "write") == 0)
        return write_one(argv[2], argv[3]);
    if (argc == 3 && strcmp(argv[1], "list") == 0)
        return list(argv[2]);
    if (argc == 3 && strcmp(argv[1], "weights") == 0)
        return weights(argv[2]);
    return usage();
}
