/* SPDX-License-Identifier: Apache-2.0 */
/* A word of a column is one tap: of the first pixel in its lower half, of the second in what is added above. */

static inline uint32_t two_pixels(const int8_t *x, int32_t second)
{
    return (uint32_t)(int32_t)x[0] + ((uint32_t)(int32_t)x[second] << 16);
}

/* What two filters may need beyond an odd number of taps. */
static void column_end(uint32_t *column, int32_t taps)
{
    if (taps % 2 != 0) {
        column[taps] = 0;
    }
}

void poet_column_of_taps(uint32_t *column, const int8_t *x, int32_t taps, int32_t apart, int32_t second)
{
    for (int32_t i = 0; i < taps; i++, x += apart) {
        column[i] = two_pixels(x, second);
    }
    column_end(column, taps);
}

/* Kernels of three columns whose windows overlap need four bytes for six. */
static void column_of_threes(uint32_t *column, const int8_t *x, int32_t rows, int32_t width)
{
    for (int32_t row = 0; row < rows; row++, x += width, column += 3) {
        const int32_t b = x[1];
        const int32_t c = x[2];
        column[0] = (uint32_t)(int32_t)x[0] + ((uint32_t)b << 16);
        column[1] = (uint32_t)b + ((uint32_t)c << 16);
        column[2] = (uint32_t)c + ((uint32_t)(int32_t)x[3] << 16);
    }
}

void poet_column_of_rows(uint32_t *column, const int8_t *x, int32_t rows, int32_t s, int32_t width, int32_t second)
{
    const int32_t taps = rows * s;
    if (s == 3 && second == 1) {
        column_of_threes(column, x, rows, width);
    } else {
        uint32_t *word = column;
        for (int32_t row = 0; row < rows; row++, x += width) {
            for (int32_t i = 0; i < s; i++) {
                *word++ = two_pixels(x + i, second);
            }
        }
    }
    column_end(column, taps);
}

__attribute__((noinline)) static void add_row(const int8_t *x, int32_t stride, const int8_t *w, int32_t *sums,
                                              const int32_t *end)
{
    const int32_t w0 = w[0];
    const int32_t w1 = w[1];
    const int32_t w2 = w[2];
    int32_t a = x[0];
    if (stride == 2) {
        do {
            const int32_t c = x[2];
            *sums += a * w0 + x[1] * w1 + c * w2;
            x += 2;
            a = c;
        } while (++sums != end);
        return;
    }
    int32_t b = x[1];
    x += 2;
    do {
        const int32_t c = *x++;
        *sums += a * w0 + b * w1 + c * w2;
        a = b;
        b = c;
    } while (++sums != end);
}

void poet_windows_s8(const int8_t *const *lines, int32_t stride, const int8_t *w, int32_t *sums, int32_t count)
{
    memset(sums, 0, (size_t)count * sizeof *sums);
    for (int32_t r = 0; r < 3; r++, w += 3) {
        add_row(lines[r], stride, w, sums, sums + count);
    }
}
