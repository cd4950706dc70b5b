/* SPDX-License-Identifier: Apache-2.0 */
/* Batch normalisation in training mode, with the batch's own statistics: per channel,
 * y = (x - mean) * invstd * gamma + beta, with invstd = 1 / sqrt(variance + eps) and the biased variance.
 * It changes nothing but its outputs, so that it can be recomputed; batch_norm_update moves the running statistics. */
#include "../kernels/mathematics.h"
#include "../kernels/shape.h"
#include "fours.h"

int poet_batch_norm_sizes(const int32_t *params, poet_sizes *sizes)
{
    const poet_batch_norm_params *p = (const poet_batch_norm_params *)params;
    return p->eps_nano < 0 ? POET_E_ARGUMENT : poet_sizes_read("abc,b,b>abc,b,b", params, sizes);
}

static float sum_of_image(const float *x, int32_t size)
{
    float sum = 0.0f;
    for (int32_t fours = poet_fours(size); fours > 0; fours--, x += 4) {
        const float x0 = x[0], x1 = x[1], x2 = x[2], x3 = x[3];
        sum = sum + x0 + x1 + x2 + x3;
    }
    for (int32_t ones = poet_ones(size); ones > 0; ones--) {
        sum += *x++;
    }
    return sum;
}

static float squares_of_image(const float *x, int32_t size, float mean)
{
    float sum = 0.0f;
    for (int32_t fours = poet_fours(size); fours > 0; fours--, x += 4) {
        const float d0 = x[0] - mean, d1 = x[1] - mean, d2 = x[2] - mean, d3 = x[3] - mean;
        const float square0 = d0 * d0, square1 = d1 * d1, square2 = d2 * d2, square3 = d3 * d3;
        sum = sum + square0 + square1 + square2 + square3;
    }
    for (int32_t ones = poet_ones(size); ones > 0; ones--, x++) {
        sum += (*x - mean) * (*x - mean);
    }
    return sum;
}

static void normalise_image(const float *x, int32_t size, float mean, float invstd, float scale, float shift, float *y)
{
    for (int32_t fours = poet_fours(size); fours > 0; fours--, x += 4, y += 4) {
        const float d0 = x[0] - mean, d1 = x[1] - mean, d2 = x[2] - mean, d3 = x[3] - mean;
        const float z0 = d0 * invstd, z1 = d1 * invstd, z2 = d2 * invstd, z3 = d3 * invstd;
        const float scaled0 = z0 * scale, scaled1 = z1 * scale, scaled2 = z2 * scale, scaled3 = z3 * scale;
        const float y0 = scaled0 + shift, y1 = scaled1 + shift, y2 = scaled2 + shift, y3 = scaled3 + shift;
        y[0] = y0, y[1] = y1, y[2] = y2, y[3] = y3;
    }
    for (int32_t ones = poet_ones(size); ones > 0; ones--) {
        *y++ = (*x++ - mean) * invstd * scale + shift;
    }
}

static float mean_of_channel(const poet_batch_norm_params *p, const float *x)
{
    float sum = 0.0f;
    for (int32_t n = 0; n < p->n; n++, x += p->c * p->size) {
        sum += sum_of_image(x, p->size); /* by image first, which rounds less than one long sum */
    }
    return sum / (float)(p->n * p->size);
}

static float variance_of_channel(const poet_batch_norm_params *p, const float *x, float mean)
{
    float sum = 0.0f;
    for (int32_t n = 0; n < p->n; n++, x += p->c * p->size) {
        sum += squares_of_image(x, p->size, mean);
    }
    return sum / (float)(p->n * p->size);
}

int poet_batch_norm_run(const poet_op_args *args)
{
    const poet_batch_norm_params *p = (const poet_batch_norm_params *)args->params;
    const float eps = poet_from_nano(p->eps_nano);
    const float *gamma = args->inputs[1];
    const float *beta = args->inputs[2];
    float *means = args->outputs[1];
    float *invstds = args->outputs[2];
    for (int32_t c = 0; c < p->c; c++) {
        const float *x = (const float *)args->inputs[0] + c * p->size;
        float *y = (float *)args->outputs[0] + c * p->size;
        const float mean = mean_of_channel(p, x);
        const float invstd = 1.0f / poet_sqrt(variance_of_channel(p, x, mean) + eps);
        const float scale = gamma[c];
        const float shift = beta[c];
        for (int32_t n = 0; n < p->n; n++, x += p->c * p->size, y += p->c * p->size) {
            normalise_image(x, p->size, mean, invstd, scale, shift, y);
        }
        means[c] = mean;
        invstds[c] = invstd;
    }
    return POET_OK;
}
