/* SPDX-License-Identifier: Apache-2.0 */
/* What the optimisers that end a step have in common. */
#ifndef POET_KERNELS_DESCENT_H
#define POET_KERNELS_DESCENT_H

#include <float.h>
#include <stdbool.h>
#include <stdint.h>

#include "mathematics.h"

/* A bound or a factor among the parameters: a finite number, and not negative. */
static inline bool poet_is_amount(int32_t bits)
{
    const float amount = poet_from_bits(bits);
    return amount >= 0.0f && amount <= FLT_MAX;
}

/* What is done to each element of a gradient first. Where there is nothing to do, nothing is computed: that costs a
 * core without floats hundreds of cycles. */
typedef struct poet_gradient_rule {
    float bound; /* kept within plus and minus that */
    float decay; /* so much of the parameter is added */
    bool clips;
    bool decays;
} poet_gradient_rule;

static const poet_gradient_rule poet_no_rule = {0};

static inline poet_gradient_rule poet_gradient_rule_of(int32_t clip_f32, int32_t decay_f32)
{
    return (poet_gradient_rule){poet_from_bits(clip_f32), poet_from_bits(decay_f32), clip_f32 != 0, decay_f32 != 0};
}

/* NaN stays NaN. */
static inline float poet_ruled_gradient(const poet_gradient_rule *rule, float gradient, float parameter)
{
    if (rule->clips) {
        gradient = gradient > rule->bound ? rule->bound : gradient;
        gradient = gradient < -rule->bound ? -rule->bound : gradient;
    }
    return rule->decays ? gradient + rule->decay * parameter : gradient;
}

/* What ends the parameters of an update: sgd_general's but its size, or Adam's. All 0: plain. */
typedef struct poet_descent {
    int32_t momentum_nano, decay_f32, clip_f32, nesterov, adam, eps_f32;
} poet_descent;

static inline bool poet_is_descent(const poet_descent *p)
{
    const bool sound = poet_is_amount(p->decay_f32) && poet_is_amount(p->clip_f32) && poet_is_amount(p->eps_f32);
    return sound && (p->adam == 1 ? p->momentum_nano == 0 && p->nesterov == 0
                                  : p->adam == 0 && p->eps_f32 == 0 && p->momentum_nano >= 0 &&
                                        (p->nesterov == 0 || (p->nesterov == 1 && p->momentum_nano > 0)));
}

/* Tensors of state beside each parameter. */
static inline uint32_t poet_descent_states(const poet_descent *p)
{
    return p->adam == 1 ? 2u : p->momentum_nano > 0 ? 1u : 0u;
}

#endif
