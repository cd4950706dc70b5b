/* SPDX-License-Identifier: Apache-2.0 */
/* Benchmarks of single operators and of page transfers: what the planner's costs are made of.
 *
 * All buffers lie in the RAM that is passed in, so that a benchmark overwrites resident tensors and arena.
 * Each measured part runs inside one window (poet_board_window).
 */
#ifndef POET_BENCH_H
#define POET_BENCH_H

#include <stdbool.h>
#include <stdint.h>

#include "poet/operator.h"
#include "poet/pager.h"
#include "poet/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct poet_operator_bench {
    uint64_t ticks; /* of all repeats */
    uint32_t output_bytes;
    uint32_t workspace_bytes;
    uint32_t checksum; /* CRC-32 of all outputs after the last repeat */
} poet_operator_bench;

/* Whether a benchmark of the operator reads or writes kept tensors, and so needs the pager: they lie in the page area.
 */
bool poet_bench_needs_card(const poet_operator *benched, const int32_t *params);

/* Runs an operator `repeats` times on pseudo-random data, equal on every board. POET_E_MEMORY if its operands do not
 * fit the RAM, POET_E_ARGUMENT for parameters that make no sense, POET_E_UNSUPPORTED for what the schedule runner does
 * itself. `pager` may be NULL where poet_bench_needs_card says no. */
int poet_bench_operator(const poet_operator *benched, const int32_t *params, uint32_t repeats, uint8_t *ram,
                        uint32_t ram_bytes, poet_pager *pager, poet_operator_bench *result);

typedef struct poet_page_bench {
    bool in;
    bool scattered; /* each transfer at another pseudo-random place, instead of one after the other */
    uint32_t bytes;
    uint32_t repeats;
    uint64_t ticks; /* result */
} poet_page_bench;

/* Transfers a page `repeats` times within the page area, check included, as the schedule runner does it. */
int poet_bench_page(poet_pager *pager, uint8_t *ram, uint32_t ram_bytes, poet_page_bench *bench);

#ifdef __cplusplus
}
#endif

#endif
