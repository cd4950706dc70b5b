/* SPDX-License-Identifier: Apache-2.0 */
/* The kept tensors of one node, while its operator runs: what it reads comes from the homes that count, what it writes
 * goes to those that do not. */
#ifndef POET_RUNTIME_KEPT_OPERANDS_H
#define POET_RUNTIME_KEPT_OPERANDS_H

#include "poet/operator.h"
#include "poet/pager.h"
#include "poet/record.h"

typedef struct poet_kept_operands {
    const poet_kept *const *inputs; /* NULL where an operand is in RAM */
    const poet_kept *const *outputs;
    poet_record *record;
    poet_pager *pager;

    struct { /* the output under way */
        uint32_t done;
        uint32_t block;
        uint32_t crc;
    } written;

    struct { /* the transfer under way, and what was read before it from the tensor's begin on */
        poet_kept_place place;
        const void *data;
        uint32_t bytes;
        bool in_order;
        uint32_t done;
        uint32_t crc;
    } read;
} poet_kept_operands;

/* As poet_sink. */
int poet_kept_operands_write(void *context, uint32_t output, const void *data, uint32_t bytes);
int poet_kept_operands_write_row(void *context, uint32_t output, uint32_t row, void *before, const void *after);

/* As poet_source. A tensor that lies as a whole, and was read from its begin to its end in order, is checked:
 * POET_E_CORRUPT. */
int poet_kept_operands_read(void *context, uint32_t input, uint32_t offset, void *data, uint32_t bytes);
int poet_kept_operands_wait(void *context);

#endif
