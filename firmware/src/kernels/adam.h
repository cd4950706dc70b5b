/* SPDX-License-Identifier: Apache-2.0 */
#ifndef POET_KERNELS_ADAM_H
#define POET_KERNELS_ADAM_H

#include "descent.h"
#include "rounding.h"

typedef struct poet_adam_factors {
    float size;  /* of a step: rate * root / (1 - beta1^t) */
    float root;  /* sqrt(1 - beta2^t) */
    float left;  /* of a parameter that decays by itself (AdamW): 1 - rate * decay */
    float rest1; /* 1 - beta1 */
    float beta2;
    float rest2; /* 1 - beta2 */
} poet_adam_factors;

/* Adam as in torch.optim. A gradient is clipped; then, with the step's factors,
 *     grad += decay * param
 *     exp_avg += (1 - beta1) * (grad - exp_avg);  exp_avg_sq = beta2 * exp_avg_sq + ((1 - beta2) * grad) * grad
 *     param = left * param - size * exp_avg / (sqrt(exp_avg_sq) + root * eps)
 * which is torch.optim's sum with one division less. AdamW has no decay here, but in `left`. Averages of zeros begin.
 * Next versions may lie where those before do, or where the gradient does. */
static inline void poet_adam_descend(poet_adam_factors f, poet_gradient_rule rule, float eps, int32_t count,
                                     const float *gradient, const float *const *before, float *after, float *average,
                                     float *squares)
{
    const float *weights = before[0], *average_before = before[1], *squares_before = before[2];
    const bool fades = f.left < 1.0f;
    eps = f.root * eps;
    for (int32_t i = 0; i < count; i++) {
        const float w = weights[i];
        const float g = poet_ruled_gradient(&rule, gradient[i], w);
        const float m = average_before[i] + f.rest1 * (g - average_before[i]);
        const float v = f.beta2 * squares_before[i] + (f.rest2 * g) * g;
        average[i] = m;
        squares[i] = v;
        after[i] = (fades ? f.left * w : w) - f.size * m / (poet_sqrt(v) + eps);
    }
}

#endif
