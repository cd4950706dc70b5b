/* SPDX-License-Identifier: Apache-2.0 */
/* y = 1 with the probability `keep`, else 0. An element's word is Threefry's for the generator's seed and step, the
 * operator's stream and the element's place: a recomputation draws the same, and no mask has to be kept. */
#include "../kernels/shape.h"
#include "../kernels/threefry.h"

#define ONE_NANO 1000000000u

int poet_bernoulli_sizes(const int32_t *params, poet_sizes *sizes)
{
    const poet_bernoulli_params *p = (const poet_bernoulli_params *)params;
    if (p->keep_nano < 0 || p->keep_nano > (int32_t)ONE_NANO || p->stream < 0) {
        return POET_E_ARGUMENT;
    }
    const int status = poet_elementwise_sizes(p->size, 1, sizes);
    if (status == POET_OK) {
        sizes->input_bytes[0] = 8;
    }
    return status;
}

/* 2^32 times the probability: bit by bit, since a core without 64-bit division takes 1 KB for one. */
static uint64_t limit_of(uint32_t keep_nano)
{
    uint64_t limit = keep_nano / ONE_NANO;
    uint32_t left = keep_nano % ONE_NANO;
    for (uint32_t bit = 0; bit < 32; bit++) {
        left *= 2u;
        limit = limit * 2u + (left >= ONE_NANO);
        left -= left >= ONE_NANO ? ONE_NANO : 0u;
    }
    return limit;
}

int poet_bernoulli_run(const poet_op_args *args)
{
    const poet_bernoulli_params *p = (const poet_bernoulli_params *)args->params;
    const uint64_t limit = limit_of((uint32_t)p->keep_nano);
    float *y = args->outputs[0];
    uint32_t counter[2] = {(uint32_t)p->stream, 0};
    uint32_t words[2] = {0, 0};
    for (int32_t i = 0; i < p->size; i++) {
        if (i % 2 == 0) {
            poet_threefry(args->inputs[0], counter, words);
            counter[1]++;
        }
        y[i] = words[i % 2] < limit ? 1.0f : 0.0f;
    }
    return POET_OK;
}
