/* SPDX-License-Identifier: Apache-2.0 */
/* What Adam's updates have in common, once a step, from the number of steps before it: in double, each rounded once. */
#include "../kernels/adam.h"
#include "../kernels/shape.h"

#define ONE_NANO 1000000000

int poet_adam_factors_sizes(const int32_t *params, poet_sizes *sizes)
{
    const poet_adam_factors_params *p = (const poet_adam_factors_params *)params;
    if (p->beta1_nano < 0 || p->beta1_nano >= ONE_NANO || p->beta2_nano < 0 || p->beta2_nano >= ONE_NANO ||
        !poet_is_amount(p->decay_f32)) {
        return POET_E_ARGUMENT;
    }
    *sizes = (poet_sizes){.inputs = 1, .outputs = 1, .input_bytes = {4}, .output_bytes = {sizeof(poet_adam_factors)}};
    return POET_OK;
}

static double power(double base, uint32_t exponent)
{
    double result = 1.0;
    for (; exponent > 0; exponent /= 2u) {
        if (exponent % 2u == 1u) {
            result = result * base;
        }
        base = base * base;
    }
    return result;
}

/* One step of Newton's doubles the 24 bits that are right. */
static double root_of(double x)
{
    const double near = (double)poet_sqrt((float)x);
    return 0.5 * (near + x / near);
}

int poet_adam_factors_run(const poet_op_args *args)
{
    const poet_adam_factors_params *p = (const poet_adam_factors_params *)args->params;
    const uint32_t *steps = args->inputs[0];
    poet_adam_factors *factors = args->outputs[0];
    const uint32_t t = steps[0] + 1u;
    const double rate = (double)args->learning_rate;
    const double beta1 = (double)p->beta1_nano / ONE_NANO;
    const double beta2 = (double)p->beta2_nano / ONE_NANO;
    const double root = root_of(1.0 - power(beta2, t));
    *factors = (poet_adam_factors){
        .size = (float)(rate * root / (1.0 - power(beta1, t))),
        .root = (float)root,
        .left = (float)(1.0 - rate * (double)poet_from_bits(p->decay_f32)),
        .rest1 = (float)(1.0 - beta1),
        .beta2 = (float)beta2,
        .rest2 = (float)(1.0 - beta2),
    };
    return POET_OK;
}
