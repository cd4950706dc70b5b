/* SPDX-License-Identifier: Apache-2.0 */
/* y = 1 with the probability `keep`, else 0. An element's word is Threefry's for the generator's seed and step, the
 * operator's stream and the element's place: a recomputation draws the same, and no mask has to be kept. */
#include "../kernels/shape.h"
#include "../kernels/share.h"
#include "../kernels/threefry.h"

#define ONE_NANO 1000000000u

int poet_bernoulli_sizes(const int32_t *params, poet_sizes *sizes)
{
    const poet_bernoulli_params *p = (const poet_bernoulli_params *)params;
    return p->keep_nano < 0 || p->keep_nano > (int32_t)ONE_NANO || p->stream < 0
               ? POET_E_ARGUMENT
               : poet_sizes_read("2>a", params, sizes);
}

int poet_bernoulli_run(const poet_op_args *args)
{
    const poet_bernoulli_params *p = (const poet_bernoulli_params *)args->params;
    const uint32_t keep = (uint32_t)p->keep_nano;
    const uint64_t limit = (poet_share_of(keep, ONE_NANO) >> 32) + (keep == ONE_NANO); /* of 2^32 */
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
