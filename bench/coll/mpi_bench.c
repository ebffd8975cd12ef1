/* SPDX-License-Identifier: Apache-2.0 */
/* Times MPI's all-reduce as coll_bench does its own. Built by coll.sh with mpicc.
 * mpi_bench REPEATS */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static const struct {
    size_t bytes;
    int turns;
} sizes[] = {{4 << 10, 2000}, {256 << 10, 200}, {4 << 20, 20}, {64 << 20, 2}};

int main(int argc, char **argv)
{
    int rank, repeats = argc > 1 ? atoi(argv[1]) : 5;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    float *v = calloc(1, 64 << 20);
    if (!v)
        MPI_Abort(MPI_COMM_WORLD, 1);
    for (size_t i = 0; i < (64 << 20) / sizeof *v; i++)
        v[i] = 0;
    for (int k = 0; k < 4; k++) {
        double best = 1e9;
        for (int i = 0; i < repeats; i++) {
            MPI_Barrier(MPI_COMM_WORLD);
            double took = MPI_Wtime();
            for (int turn = 0; turn < sizes[k].turns; turn++)
                MPI_Allreduce(MPI_IN_PLACE, v, (int)(sizes[k].bytes / sizeof *v), MPI_FLOAT,
                              MPI_SUM, MPI_COMM_WORLD);
            took = (MPI_Wtime() - took) / sizes[k].turns;
            MPI_Allreduce(MPI_IN_PLACE, &took, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
            best = took < best ? took : best;
        }
        if (rank == 0)
            printf("%zu %.3f\n", sizes[k].bytes, best * 1e6);
    }
    free(v);
    MPI_Finalize();
    return 0;
}
