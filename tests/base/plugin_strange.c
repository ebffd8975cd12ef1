/* SPDX-License-Identifier: Apache-2.0 */
/* A library that is no helper of ours. */
int dt_other_symbol(void);
__attribute__((visibility("default"))) int dt_other_symbol(void)
{
    return 0;
}
