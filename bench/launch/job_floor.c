/* SPDX-License-Identifier: Apache-2.0 */
/* job_floor N PROGRAM [ARG...]: what no launcher can be faster than: fork, exec and wait for N
 * processes of a program, and nothing else. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    int count = argc > 2 ? atoi(argv[1]) : 0, failed = 0, status;
    if (count < 1) {
        fputs("Usage: job_floor N PROGRAM [ARG...]\n", stderr);
        return 2;
    }
    for (int i = 0; i < count; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            execv(argv[2], argv + 2);
            _exit(127);
        }
        failed += pid < 0;
    }
    while (wait(&status) > 0)
        failed += status != 0;
    return failed != 0;
}
