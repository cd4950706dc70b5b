/* SPDX-License-Identifier: Apache-2.0 */
/* Adam, in place (kernels/adam.h). */
#include "../kernels/adam.h"
#include "../kernels/shape.h"

int poet_adam_sizes(const int32_t *params, poet_sizes *sizes)
{
    const poet_adam_params *p = (const poet_adam_params *)params;
    if (!poet_is_amount(p->eps_f32) || !poet_is_amount(p->decay_f32) || !poet_is_amount(p->clip_f32)) {
        return POET_E_ARGUMENT;
    }
    const int status = poet_elementwise_sizes(p->size, 5, sizes);
    if (status == POET_OK) {
        sizes->input_bytes[0] = sizeof(poet_adam_factors);
        sizes->outputs = 3;
        sizes->output_bytes[1] = sizes->output_bytes[0];
        sizes->output_bytes[2] = sizes->output_bytes[0];
        sizes->in_place = 1;
        sizes->not_negative = 1u << 4;
    }
    return status;
}

int poet_adam_run(const poet_op_args *args)
{
    const poet_adam_params *p = (const poet_adam_params *)args->params;
    const float *before[] = {args->inputs[2], args->inputs[3], args->inputs[4]};
    poet_adam_descend(*(const poet_adam_factors *)args->inputs[0], poet_gradient_rule_of(p->clip_f32, p->decay_f32),
                      poet_from_bits(p->eps_f32), p->size, args->inputs[1], before, args->outputs[0], args->outputs[1],
                      args->outputs[2]);
    return POET_OK;
}
