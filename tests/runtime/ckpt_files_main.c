/* SPDX-License-Identifier: Apache-2.0 */
int ckpt_files(int argc, char **argv);

int main(int argc, char **argv)
{
    return ckpt_files(argc, argv);
}
