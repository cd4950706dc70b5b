/* SPDX-License-Identifier: Apache-2.0 */
#include "orders.h"

#include <math.h>

/* In the place of how many inputs a node misses: it has its place. */
#define PLACED (-1)

/* `readers`: how many nodes still read each value. */
static double score_of(const struct problem *problem, const int64_t *readers, int64_t node, double key,
                       double transient)
{
    int64_t made = 0;
    int64_t over = 0;
    for (int64_t v = problem->output_start[node]; v < problem->output_start[node + 1]; v++) {
        made += problem->size[v];
        over += readers[v] == 0 ? problem->size[v] : 0;
    }
    for (int64_t k = problem->input_start[node]; k < problem->input_start[node + 1]; k++) {
        const int64_t v = problem->input_value[k];
        over += readers[v] == 1 ? problem->size[v] : 0;
    }
    return (double)(made - over) * key + transient * (double)(made + problem->workspace[node]);
}

void list_schedule(const struct problem *problem, const double *keys, double transient, int64_t ahead, int64_t *order,
                   int64_t *readers, int64_t *missing, int64_t *ready)
{
    const int64_t n = nodes_of(problem);
    for (int64_t v = 0; v < values_of(problem); v++) {
        readers[v] = problem->use_start[v + 1] - problem->use_start[v];
    }
    int64_t count = 0;
    int64_t first = 0; /* of the nodes that are not placed */
    for (int64_t j = 0; j < n; j++) {
        missing[j] = problem->input_start[j + 1] - problem->input_start[j];
        if (missing[j] == 0) {
            ready[count++] = j;
        }
    }
    for (int64_t place = 0; place < n; place++) {
        double least = (double)INFINITY;
        int64_t chosen = 0;
        while (missing[first] == PLACED) {
            first++;
        }
        for (int64_t k = 0; k < count; k++) {
            if (ready[k] - first > ahead) {
                continue;
            }
            const double score = score_of(problem, readers, ready[k], keys[ready[k]], transient);
            if (score < least) {
                least = score;
                chosen = k;
            }
        }
        const int64_t node = ready[chosen];
        count--;
        ready[chosen] = ready[count];
        order[place] = node;
        missing[node] = PLACED;
        for (int64_t k = problem->input_start[node]; k < problem->input_start[node + 1]; k++) {
            readers[problem->input_value[k]]--;
        }
        const int64_t end = problem->use_start[problem->output_start[node + 1]];
        for (int64_t k = problem->use_start[problem->output_start[node]]; k < end; k++) {
            const int64_t user = problem->use_node[k];
            missing[user]--;
            if (missing[user] == 0) {
                ready[count++] = user;
            }
        }
    }
}
