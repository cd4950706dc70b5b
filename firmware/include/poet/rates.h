/* SPDX-License-Identifier: Apache-2.0 */
/* Learning rates that change from step to step.
 *
 *     poet_train(&trainer, poet_cosine(0.01f, poet_steps(&trainer), 20, 500));
 */
#ifndef POET_RATES_H
#define POET_RATES_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Of step t, counted from 0: first `warm` steps of 1/warm, 2/warm, ... of `rate`; then from `rate` along half a cosine
 * to 0 at step `total`, and 0 from there on. As `poet-harness run --schedule cosine --warmup`, to the last bit or next
 * to it. */
float poet_cosine(float rate, uint32_t t, uint32_t warm, uint32_t total);

#ifdef __cplusplus
}
#endif

#endif
