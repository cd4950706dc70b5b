/* SPDX-License-Identifier: Apache-2.0 */
/* List scheduling (search/orders.py). */
#ifndef POET_ORDERS_H
#define POET_ORDERS_H

#include "problem.h"

/* Write a topological order of the nodes to `order` (n). Of the ready ones, the next has the lowest score.
 *
 * The score is by how much the bytes in RAM grow, times the node's key, and `transient` times the bytes that it takes
 * while it is computed. None goes more than `ahead` nodes before the first that has no place yet. Scratch: `readers`
 * (m), `missing` and `ready` (n). */
void list_schedule(const struct problem *problem, const double *keys, double transient, int64_t ahead, int64_t *order,
                   int64_t *readers, int64_t *missing, int64_t *ready);

#endif
