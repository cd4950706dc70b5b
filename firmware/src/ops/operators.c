/* SPDX-License-Identifier: Apache-2.0 */
/* The table of all operators, built from operators.def. */
#include "poet/operator.h"

const poet_operator poet_operators[] = {
#define POET_OPERATOR(code, NAME, name, ...) POET_OPERATOR_ROW(NAME, name),
#include "poet/operators.def"
#undef POET_OPERATOR
};

POET_KERNELS(singles)
POET_KERNELS(singles_stride_2)
POET_KERNELS(triples)
POET_KERNELS(triples_stride_2)
POET_KERNELS(strided)
POET_KERNELS(transposed)
POET_KERNELS(transposed_five)
POET_KERNELS(transposed_spread)
POET_KERNELS(singles_pair)
POET_KERNELS(transposed_pair)
POET_KERNELS(strided_pair)
POET_KERNELS(gradient_3x3)
POET_KERNELS(gradient_three)
POET_KERNELS(gradient_2x2)
POET_KERNELS(gradient_2x1)
POET_KERNELS(gradient_1x2)
POET_KERNELS(gradient_1x1)
POET_KERNELS(general)
POET_KERNELS(vector)
POET_KERNELS(outer)
POET_KERNELS(nt_fours)
POET_KERNELS(nt_fours_stride_2)
POET_KERNELS(nt_pairs)
POET_KERNELS(nt_row)
POET_KERNELS(nt_3x3)
POET_KERNELS(depthwise)
POET_KERNELS(depthwise_padded)
POET_KERNELS(small_planes)
POET_KERNELS(winograd)
#define POET_STEP(code, NAME, name, kind, flops, value) POET_STEPS(name)
#include "poet/steps.def"
#undef POET_STEP

const poet_operator_set poet_all_operators = {poet_operators, sizeof poet_operators / sizeof *poet_operators};
