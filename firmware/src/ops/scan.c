/* SPDX-License-Identifier: Apache-2.0 */
/* Along the middle axis of three, running sums, logarithms of sums of exp, or products, from either end. */
#include "../kernels/mathematics.h"
#include "../kernels/shape.h"

enum { SUM, LOG_SUM_EXP, PRODUCT };

int poet_scan_sizes(const int32_t *params, poet_sizes *sizes)
{
    const poet_scan_params *p = (const poet_scan_params *)params;
    return p->kind < SUM || p->kind > PRODUCT || (p->reverse & ~1) != 0 ? POET_E_ARGUMENT
                                                                        : poet_sizes_read("abc>abc", params, sizes);
}

static float log_sum_exp(float a, float b)
{
    const float most = a > b || a != a ? a : b;
    /* Equal infinities have no difference. */
    return a == b ? a + 0.693147182f : most + poet_log_one_plus(poet_exp((a > b ? b : a) - most));
}

static float next(int32_t kind, float before, float x)
{
    if (kind == LOG_SUM_EXP) {
        return log_sum_exp(before, x);
    }
    return kind == SUM ? before + x : before * x;
}

int poet_scan_run(const poet_op_args *args)
{
    const poet_scan_params *p = (const poet_scan_params *)args->params;
    const int32_t step = p->reverse ? -p->inner : p->inner;
    const int32_t first = p->reverse ? (p->length - 1) * p->inner : 0;
    for (int32_t outer = 0; outer < p->outer; outer++) {
        const float *x = (const float *)args->inputs[0] + outer * p->length * p->inner + first;
        float *y = (float *)args->outputs[0] + outer * p->length * p->inner + first;
        for (int32_t k = 0; k < p->length; k++, x += step, y += step) {
            for (int32_t i = 0; i < p->inner; i++) {
                y[i] = k == 0 ? x[i] : next(p->kind, y[i - step], x[i]);
            }
        }
    }
    return POET_OK;
}
