/* SPDX-License-Identifier: Apache-2.0 */
#ifndef POET_OPS_ADAM_FACTORS_H
#define POET_OPS_ADAM_FACTORS_H

typedef struct poet_adam_factors {
    float size;  /* of a step: rate * root / (1 - beta1^t) */
    float root;  /* sqrt(1 - beta2^t) */
    float left;  /* of a parameter that decays by itself (AdamW): 1 - rate * decay */
    float rest1; /* 1 - beta1 */
    float beta2;
    float rest2; /* 1 - beta2 */
} poet_adam_factors;

#endif
