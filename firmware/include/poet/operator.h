/* SPDX-License-Identifier: Apache-2.0 */
/* The operator table: the one list that the schedule runner, the benchmark and the planner's vocabulary share.
 *
 * An operator is a pure function from input tensors to output tensors, f32 unless stated, row-major, NCHW.
 * Its shape is a short list of integers whose names and order stand in operators.def (and, in words, in
 * docs/SPEC.md). Inputs and outputs never overlap, but where `sizes` says in_place, or takes_over.def that the first
 * output may lie where an input does.
 *
 *     const int32_t params[] = {8, 1, 8, 8, 16, 3, 3, 1, 1, 1, 1, 1, 1};
 *     const poet_operator *conv = poet_operator_find(&poet_all_operators, POET_OP_CONV2D);
 *     poet_sizes sizes;
 *     conv->sizes(params, &sizes);                 // POET_E_ARGUMENT if the parameters make no sense
 *     const void *in[] = {x, w, b};
 *     void *out[] = {y};
 *     poet_op_args args = {params, in, out, workspace, 0.0f, NULL, NULL};
 *     conv->run(&args);
 */
#ifndef POET_OPERATOR_H
#define POET_OPERATOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "poet/status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define POET_MAX_INPUTS 12
#define POET_MAX_OUTPUTS 6
#define POET_MAX_PARAMS 48

typedef struct poet_sizes {
    uint32_t inputs; /* how many inputs there are with these parameters */
    uint32_t outputs;
    uint32_t input_bytes[POET_MAX_INPUTS];
    uint32_t output_bytes[POET_MAX_OUTPUTS]; /* unpadded; the planner rounds up to 4 */
    uint32_t workspace_bytes;
    uint32_t in_place;    /* 1: the outputs are the last inputs, changed where they lie */
    uint32_t kept;        /* POET_KEPT_*: which operands are kept tensors, on the card */
    uint32_t kept_input;  /* with POET_KEPT_INPUT: which input */
    uint32_t kept_also;   /* bit i: and input i, a state beside it */
    uint32_t kept_rows;   /* into so many rows they are divided, and read and written row by row; 0: they are not */
    uint32_t index_input; /* where index_bound is not 0: this input holds indices below that bound, not f32, */
    uint32_t index_bytes; /* each of so many bytes */
    uint32_t index_bound;
    uint32_t not_negative; /* bit i: input i never is, as a sum of squares */
    uint32_t s8;           /* bit i: input i is of int8; no two neighbours are -128 */
    uint32_t starts;       /* bit i: input i is of int32, what sums begin with */
    uint32_t scales;       /* bit i: input i is what those sums are multiplied with, positive */
    uint32_t takes_over;   /* bit i: the first output may lie in the place of input i, beside takes_over.def */
} poet_sizes;

/* What `sizes` says of kept tensors: none, one input, all outputs, or both. */
enum { POET_KEPT_NONE = 0, POET_KEPT_INPUT = 1, POET_KEPT_OUTPUTS = 2 };

/* Where an operator puts next versions of kept tensors: one output after the other, each from its begin to its end, in
 * whole blocks but for its last. Or, of a tensor that lies by rows, with `write_row`: the rows that change, each once,
 * in any order; `before` is the row as it was read, and is overwritten. Without a sink they go to `outputs`, as for any
 * operator. */
typedef struct poet_sink {
    void *context;
    int (*write)(void *context, uint32_t output, const void *data, uint32_t bytes);
    int (*write_row)(void *context, uint32_t output, uint32_t row, void *before, const void *after);
} poet_sink;

/* Where an operator reads a kept tensor: `read` starts, and after `wait` the data is there. One read at a time is under
 * way. Without it the tensor lies in `inputs`, as for any operator. */
typedef struct poet_source {
    void *context;
    bool overlaps; /* data arrive while the CPU computes */
    int (*read)(void *context, uint32_t input, uint32_t offset, void *data, uint32_t bytes);
    int (*wait)(void *context);
} poet_source;

typedef struct poet_op_args {
    const int32_t *params;
    const void *const *inputs;
    void *const *outputs;
    void *workspace;
    float learning_rate; /* read by the optimiser operators only */
    const poet_sink *sink;
    const poet_source *source;
} poet_op_args;

typedef struct poet_operator {
    uint8_t code;
    uint8_t param_count;
    int (*sizes)(const int32_t *params, poet_sizes *sizes);
    int (*run)(const poet_op_args *args);
} poet_operator;

enum {
#define POET_OPERATOR(code, NAME, name, ...) POET_OP_##NAME = code,
#include "poet/operators.def"
#undef POET_OPERATOR
};

/* An operator's parameters by name, in the order in which they stand in the array `params`, and its two functions. */
#define POET_OPERATOR(code, NAME, name, ...)                           \
    typedef struct poet_##name##_params {                              \
        int32_t __VA_ARGS__;                                           \
    } poet_##name##_params;                                            \
    int poet_##name##_sizes(const int32_t *params, poet_sizes *sizes); \
    int poet_##name##_run(const poet_op_args *args);
#include "poet/operators.def"
#undef POET_OPERATOR

/* A row of a table of operators. */
#define POET_OPERATOR_ROW(NAME, name) \
    {POET_OP_##NAME, sizeof(poet_##name##_params) / sizeof(int32_t), poet_##name##_sizes, poet_##name##_run}

/* Operators that a program holds. One that names those alone which its networks need links no other. */
typedef struct poet_operator_set {
    const poet_operator *operators;
    size_t count;
} poet_operator_set;

/* What a program may lack: its address is NULL where nothing in the program names it. */
#define POET_OPTIONAL __attribute__((weak))

/* Kernels that a program links where one of its files names them so, as the network's own does: those of products, each
 * for some shapes (kernels/kernels.h), and some convolutions' (winograd, depthwise, depthwise_padded, small_planes).
 * Without one a product takes longer, and so does depthwise_padded; the other convolutions are POET_E_UNSUPPORTED. What
 * a plan needs of the runner is named in the same way: card, where it has something there, and micro_batches. */
#define POET_KERNELS(name)                      \
    extern const uint8_t poet_##name##_kernels; \
    __attribute__((used)) static const uint8_t *const poet_##name##_named = &poet_##name##_kernels;

/* A step of `pointwise` alone, y0 of x0 or of x0 and x1, of which such a row links no other: its parameters are the
 * size, then its numbers. No request names it, so it has no code. */
#define POET_STEP_ROW(name, inputs, numbers) {0, 1 + (numbers), poet_step_sizes_##inputs, poet_##name##_step_run}
int poet_step_sizes_1(const int32_t *params, poet_sizes *sizes);
int poet_step_sizes_2(const int32_t *params, poet_sizes *sizes);
#define POET_STEP(code, NAME, name, kind, flops, value) int poet_##name##_step_run(const poet_op_args *args);
#include "poet/steps.def"
#undef POET_STEP

/* Steps that a program links for groups, likewise; more than one of its files may name one. */
typedef struct poet_step poet_step;
#define POET_STEPS(name)                       \
    extern const poet_step poet_##name##_step; \
    POET_OPTIONAL const poet_step *const poet_##name##_step_named = &poet_##name##_step;

extern const poet_operator poet_operators[];
extern const poet_operator_set poet_all_operators;

/* NULL for a code that the set lacks. */
const poet_operator *poet_operator_find(const poet_operator_set *set, uint8_t code);

/* How many parameters a call has, `params` being the first param_count of them: those of `pointwise` say how many words
 * follow, and it may be no number that there can be. */
static inline int32_t poet_operator_params(const poet_operator *op, const int32_t *params)
{
    const int32_t words = op->code == POET_OP_POINTWISE ? params[op->param_count - 1] : 0;
    return words > INT32_MAX - op->param_count ? INT32_MAX : op->param_count + words;
}

/* Whether this build, on this core and as its floating-point unit is set, rounds every single result to nearest, keeps
 * subnormals, zeros' signs and NaNs, and neither fuses nor reorders. */
bool poet_arithmetic_is_ieee(void);

#ifdef __cplusplus
}
#endif

#endif
