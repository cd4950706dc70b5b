/* y[m,n] = b[n] + sum over k of x[m,k] * w[n,k]. */
#include "shape.h"

int poet_linear_sizes(const int32_t *params, poet_sizes *sizes)
{
    const poet_linear_params *p = (const poet_linear_params *)params;
    const uint32_t x = poet_count(p->m, p->k, 1, 1);
    const uint32_t w = poet_count(p->n, p->k, 1, 1);
    const uint32_t y = poet_count(p->m, p->n, 1, 1);
    if (x == 0 || w == 0 || y == 0 || (p->bias & ~1) != 0) {
        return POET_E_ARGUMENT;
    }
    *sizes = (poet_sizes){
        .inputs = p->bias ? 3 : 2,
        .outputs = 1,
        .input_bytes = {4 * x, 4 * w, p->bias ? 4 * (uint32_t)p->n : 0},
        .output_bytes = {4 * y},
    };
    return POET_OK;
}

int poet_linear_run(const poet_op_args *args)
{
    const poet_linear_params *p = (const poet_linear_params *)args->params;
    const float *x = args->inputs[0];
    const float *bias = p->bias ? args->inputs[2] : NULL;
    float *y = args->outputs[0];
    for (int32_t m = 0; m < p->m; m++, x += p->k) {
        const float *w = args->inputs[1];
        for (int32_t n = 0; n < p->n; n++, w += p->k) {
            float sum = bias ? bias[n] : 0.0f;
            for (int32_t k = 0; k < p->k; k++) {
                sum += x[k] * w[k];
            }
            *y++ = sum;
        }
    }
    return POET_OK;
}
