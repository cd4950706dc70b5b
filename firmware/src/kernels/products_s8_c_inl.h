/* SPDX-License-Identifier: Apache-2.0 */
/* Of columns as columns_s8_c_inl.h has them. */

static void products_of_filter(const uint32_t *column, int32_t taps, const int8_t *w, int32_t *sums)
{
    uint32_t first = 0;
    uint32_t second = 0;
    for (int32_t i = 0; i < taps; i++) {
        const int32_t low = (int16_t)(column[i] & 0xffffu);
        const int32_t high = (int32_t)(column[i] - (uint32_t)low) >> 16;
        first += (uint32_t)(low * w[i]);
        second += (uint32_t)(high * w[i]);
    }
    sums[0] = (int32_t)first;
    sums[1] = (int32_t)second;
}

void poet_products_s8(const uint32_t *column, int32_t taps, const int8_t *w, int32_t filters, int32_t *sums,
                      int32_t apart)
{
    for (int32_t k = 0; k < filters; k++, w += taps, sums += apart) {
        products_of_filter(column, taps, w, sums);
    }
}

void poet_results_s8(const int32_t *sums, int32_t count, int32_t start, float scale, const poet_range_s8 *range,
                     int8_t *y)
{
    const poet_scale_s8 by = poet_scale_s8_of(scale);
    for (int32_t i = 0; i < count; i++) {
        y[i] = poet_result_s8(poet_wrapped_sum(sums[i], start), &by, range);
    }
}
