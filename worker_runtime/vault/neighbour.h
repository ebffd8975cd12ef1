/* SPDX-License-Identifier: Apache-2.0 */
/* Which rank keeps whose copy. What an agent started is lost together, so a copy lies with another
 * agent: the hosts stand in a ring by their numbers, and a rank's copy is kept by the rank with the
 * same place on the next host, or with that place modulo its ranks where it has fewer. Pure.
 *
 * HOST[r], of WORLD ranks, says whose worker rank r is: GROUP_RANK. */
#ifndef DT_WORKER_RUNTIME_VAULT_NEIGHBOUR_H
#define DT_WORKER_RUNTIME_VAULT_NEIGHBOUR_H

/* Who keeps RANK's copy; -1: there is one host alone. */
int dt_neighbour_of(const int *host, int world, int rank);

/* Whose copies RANK keeps, into WARDS, which has room for WORLD of them, in order; how many. */
int dt_neighbour_wards(const int *host, int world, int rank, int *wards);

#endif
