/* SPDX-License-Identifier: Apache-2.0 */
/* Per channel, with z = (x - mean) * invstd: gbeta = sum of gy, ggamma = sum of gy * z, and
 * gx = gamma * invstd * (gy - gbeta / count - z * ggamma / count). The three share their sums, so they are one
 * operator. */
#include "../kernels/shape.h"
#include "fours.h"

int poet_batch_norm_backward_sizes(const int32_t *params, poet_sizes *sizes)
{
    return poet_sizes_read("abc,abc,b,b,b>abc,b,b", params, sizes);
}

/* What the elements of a channel share. */
typedef struct norm {
    float mean, invstd;
    float sum, product; /* of gradients, and of gradients by z */
    float factor;       /* gamma * invstd */
    float mean_gradient, mean_product;
} norm;

static void add_image(norm *norm, const float *gy, const float *x, int32_t size)
{
    const float mean = norm->mean, invstd = norm->invstd;
    float sum = 0.0f;
    float product = 0.0f;
    for (int32_t fours = poet_fours(size); fours > 0; fours--, gy += 4, x += 4) {
        const float d0 = x[0] - mean, d1 = x[1] - mean, d2 = x[2] - mean, d3 = x[3] - mean;
        const float z0 = d0 * invstd, z1 = d1 * invstd, z2 = d2 * invstd, z3 = d3 * invstd;
        const float gy0 = gy[0], gy1 = gy[1], gy2 = gy[2], gy3 = gy[3];
        const float product0 = gy0 * z0, product1 = gy1 * z1, product2 = gy2 * z2, product3 = gy3 * z3;
        sum += gy0;
        product += product0;
        sum += gy1;
        product += product1;
        sum += gy2;
        product += product2;
        sum += gy3;
        product += product3;
    }
    for (int32_t ones = poet_ones(size); ones > 0; ones--, gy++, x++) {
        sum += *gy;
        product += *gy * ((*x - mean) * invstd);
    }
    norm->sum += sum;
    norm->product += product;
}

static void image_gradient(const norm *norm, const float *gy, const float *x, int32_t size, float *gx)
{
    const float mean = norm->mean, invstd = norm->invstd, factor = norm->factor;
    const float mean_gradient = norm->mean_gradient, mean_product = norm->mean_product;
    for (int32_t fours = poet_fours(size); fours > 0; fours--, gy += 4, x += 4, gx += 4) {
        const float d0 = x[0] - mean, d1 = x[1] - mean, d2 = x[2] - mean, d3 = x[3] - mean;
        const float z0 = d0 * invstd, z1 = d1 * invstd, z2 = d2 * invstd, z3 = d3 * invstd;
        const float by_z0 = z0 * mean_product, by_z1 = z1 * mean_product;
        const float by_z2 = z2 * mean_product, by_z3 = z3 * mean_product;
        const float centred0 = gy[0] - mean_gradient, centred1 = gy[1] - mean_gradient;
        const float centred2 = gy[2] - mean_gradient, centred3 = gy[3] - mean_gradient;
        const float left0 = centred0 - by_z0, left1 = centred1 - by_z1;
        const float left2 = centred2 - by_z2, left3 = centred3 - by_z3;
        const float gx0 = factor * left0, gx1 = factor * left1, gx2 = factor * left2, gx3 = factor * left3;
        gx[0] = gx0, gx[1] = gx1, gx[2] = gx2, gx[3] = gx3;
    }
    for (int32_t ones = poet_ones(size); ones > 0; ones--) {
        *gx++ = factor * (*gy++ - mean_gradient - (*x++ - mean) * invstd * mean_product);
    }
}

int poet_batch_norm_backward_run(const poet_op_args *args)
{
    const poet_batch_norm_backward_params *p = (const poet_batch_norm_backward_params *)args->params;
    const float *gamma = args->inputs[2];
    const float *means = args->inputs[3];
    const float *invstds = args->inputs[4];
    float *ggamma = args->outputs[1];
    float *gbeta = args->outputs[2];
    const int32_t step = p->c * p->size;
    const float count = (float)(p->n * p->size);
    for (int32_t c = 0; c < p->c; c++) {
        const float *gy = (const float *)args->inputs[0] + c * p->size;
        const float *x = (const float *)args->inputs[1] + c * p->size;
        float *gx = (float *)args->outputs[0] + c * p->size;
        norm norm = {.mean = means[c], .invstd = invstds[c]};
        for (int32_t n = 0; n < p->n; n++) {
            add_image(&norm, gy + n * step, x + n * step, p->size);
        }
        norm.factor = gamma[c] * norm.invstd;
        norm.mean_gradient = norm.sum / count;
        norm.mean_product = norm.product / count;
        for (int32_t n = 0; n < p->n; n++) {
            image_gradient(&norm, gy + n * step, x + n * step, p->size, gx + n * step);
        }
        ggamma[c] = norm.product;
        gbeta[c] = norm.sum;
    }
    return POET_OK;
}
