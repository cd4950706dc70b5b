/* SPDX-License-Identifier: Apache-2.0 */
/* The table of all operators, built from operators.def. */
#include "poet/operator.h"

const poet_operator poet_operators[] = {
#define POET_OPERATOR(code, NAME, name, ...) POET_OPERATOR_ROW(NAME, name),
#include "poet/operators.def"
#undef POET_OPERATOR
};

POET_KERNELS(winograd)
POET_KERNELS(depthwise)
POET_KERNELS(depthwise_padded)
POET_KERNELS(small_planes)

const poet_operator_set poet_all_operators = {poet_operators, sizeof poet_operators / sizeof *poet_operators};
