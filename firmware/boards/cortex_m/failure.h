/* SPDX-License-Identifier: Apache-2.0 */
/* Why the firmware itself gave up, kept in RAM over the restart that follows: a fault, a stack that grew too far, or
 * hardware that was waited for in vain. */
#ifndef CORTEX_M_FAILURE_H
#define CORTEX_M_FAILURE_H

#include <stdint.h>

#include "poet/board.h"

enum failure_kind { FAILURE_NONE, FAILURE_FAULT, FAILURE_STACK, FAILURE_STALL };

/* Keeps what happened and restarts the board. */
__attribute__((noreturn)) void failure_restart(enum failure_kind kind, uint32_t waited_for);

/* The handler of every fault. The vector table names it; nothing calls it. */
void failure_handler(void);

/* At reset, after the clearing of .bss: takes what the last run left, so that one start alone reports it. */
void failure_take(void);

/* What the last run left, for `hello`. Leaves `start->cause` as it is where that run did not give up. */
void failure_report(poet_start *start);

#endif
