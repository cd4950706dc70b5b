/* SPDX-License-Identifier: Apache-2.0 */
/* What Adam's updates have in common, once a step, from the number of steps before it. */
#include "../kernels/adam.h"
#include "../kernels/shape.h"
#include "../kernels/share.h"

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

static poet_share power(poet_share base, uint32_t exponent)
{
    poet_share result = UINT64_MAX;
    for (; exponent > 0; exponent /= 2u) {
        if (exponent % 2u == 1u) {
            result = poet_share_multiply(result, base);
        }
        base = poet_share_multiply(base, base);
    }
    return result;
}

int poet_adam_factors_run(const poet_op_args *args)
{
    const poet_adam_factors_params *p = (const poet_adam_factors_params *)args->params;
    const uint32_t *steps = args->inputs[0];
    poet_adam_factors *factors = args->outputs[0];
    const uint32_t t = steps[0] + 1u;
    const float rate = args->learning_rate;
    const poet_share beta1 = poet_share_of((uint32_t)p->beta1_nano, ONE_NANO);
    const poet_share beta2 = poet_share_of((uint32_t)p->beta2_nano, ONE_NANO);
    const float root = poet_sqrt(poet_share_number(1.0f, ~power(beta2, t)));
    *factors = (poet_adam_factors){
        .size = rate * root / poet_share_number(1.0f, ~power(beta1, t)),
        .root = root,
        .left = 1.0f - rate * poet_from_bits(p->decay_f32),
        .rest1 = poet_share_number(1.0f, ~beta1),
        .beta2 = poet_share_number(1.0f, beta2),
        .rest2 = poet_share_number(1.0f, ~beta2),
    };
    return POET_OK;
}
