/* SPDX-License-Identifier: Apache-2.0 */
/* Two products an SMLAD. Weights are four bytes a load, which SXTB16 unpacks to taps 0 and 2, and 1 and 3. So a column
 * has of each four taps four words of 16-bit numbers: taps 0 2 and 1 3 of the first pixel, then of the second. */
#include <arm_acle.h>

static inline uint32_t even_bytes(uint32_t word)
{
    return (uint32_t)__sxtb16((int32_t)word);
}

static inline uint32_t odd_bytes(uint32_t word)
{
    uint32_t halves;
    __asm__("sxtb16 %0, %1, ror #8" : "=r"(halves) : "r"(word));
    return halves;
}

static inline uint32_t bytes_at(const int8_t *x, size_t count)
{
    uint32_t word = 0;
    memcpy(&word, x, count);
    return word;
}

/* Pairs are bytes of both pixels: of taps 0 2 in one word, of taps 1 3 in the next. */
static inline void widen_pairs(uint32_t even, uint32_t odd, uint32_t *column)
{
    column[0] = even_bytes(even);
    column[1] = even_bytes(odd);
    column[2] = odd_bytes(even);
    column[3] = odd_bytes(odd);
}

static inline uint32_t pair_at(const int8_t *x, int32_t second)
{
    return second == 1 ? bytes_at(x, 2) : (uint32_t)(uint8_t)x[0] | (uint32_t)(uint8_t)x[second] << 8;
}

void poet_column_of_taps(uint32_t *column, const int8_t *x, int32_t taps, int32_t apart, int32_t second)
{
    for (; taps >= 4; taps -= 4, x += 4 * apart, column += 4) {
        widen_pairs(pair_at(x, second) | pair_at(x + 2 * apart, second) << 16,
                    pair_at(x + apart, second) | pair_at(x + 3 * apart, second) << 16, column);
    }
    if (taps > 0) { /* what fills the last word counts nothing */
        const uint32_t even = pair_at(x, second) | (taps > 2 ? pair_at(x + 2 * apart, second) << 16 : 0u);
        widen_pairs(even, taps > 1 ? pair_at(x + apart, second) : 0u, column);
    }
}

/* From one tap's place among pairs to the next one's, in bytes. */
static const int8_t pair_steps[4] = {4, -2, 4, 2};

/* Pairs begin in the column's second half: where they are widened, nothing is overwritten that is still to be read. */
void poet_column_of_rows(uint32_t *column, const int8_t *x, int32_t rows, int32_t s, int32_t width, int32_t second)
{
    const int32_t words = (rows * s + 3) / 4;
    const uint32_t *pairs = column + 2 * words;
    column[4 * words - 2] = 0;
    column[4 * words - 1] = 0;
    int8_t *to = (int8_t *)(column + 2 * words);
    int32_t tap = 0;
    for (int32_t row = 0; row < rows; row++, x += width) {
        for (int32_t i = 0; i < s; i++, tap++) {
            const uint16_t pair = (uint16_t)pair_at(x + i, second);
            memcpy(to, &pair, sizeof pair);
            to += pair_steps[tap & 3];
        }
    }
    for (int32_t word = 0; word < words; word++, pairs += 2, column += 4) {
        widen_pairs(pairs[0], pairs[1], column);
    }
}

/* Sums of two pixels by pairs of filters. A filter has its weights `taps` behind the one before, its sums `apart` bytes
 * behind. */
/* clang-format off */
#define FILTER(w, a, b)                                                                   \
    "ldr r12, [" w "], #4\n sxtb16 lr, r12\n smlad " a ", lr, r8, " a "\n smlad " b ", lr, r10, " b "\n" \
    "sxtb16 r12, r12, ror #8\n smlad " a ", r12, r9, " a "\n smlad " b ", r12, r11, " b "\n"
FUNCTION_IN_ASSEMBLY static void products_2x2(const uint32_t *column __attribute__((unused)),
                                              const int8_t *w __attribute__((unused)),
                                              int32_t words __attribute__((unused)),
                                              int32_t *sums __attribute__((unused)),
                                              int32_t apart __attribute__((unused)),
                                              int32_t taps __attribute__((unused)),
                                              int32_t pairs __attribute__((unused)))
{
    __asm__("push {r0-r11, lr}\n"
            "1: ldr r0, [sp]\n ldr r1, [sp, #4]\n ldr r3, [sp, #8]\n ldr r12, [sp, #56]\n"
            "add r2, r1, r12\n add r12, r2, r12\n str r12, [sp, #4]\n"
            "movs r4, #0\n movs r5, #0\n movs r6, #0\n movs r7, #0\n"
            ".balign 4\n"
            "2: ldr r8, [r0], #4\n ldr r9, [r0], #4\n ldr r10, [r0], #4\n ldr r11, [r0], #4\n"
            FILTER("r1", "r4", "r5") "subs r3, #1\n" FILTER("r2", "r6", "r7") "bne 2b\n"
            "ldr r12, [sp, #12]\n ldr lr, [sp, #52]\n ldr r3, [sp, #60]\n"
            "strd r4, r5, [r12]\n add r12, lr\n strd r6, r7, [r12]\n add r12, lr\n str r12, [sp, #12]\n"
            "subs r3, #1\n str r3, [sp, #60]\n bne 1b\n"
            "add sp, #16\n pop {r4-r11, pc}\n");
}
/* clang-format on */

void poet_products_s8(const uint32_t *column, int32_t taps, const int8_t *w, int32_t filters, int32_t *sums,
                      int32_t apart)
{
    const int32_t words = (taps + 3) / 4;
    const int32_t pairs = filters / 2;
    if (pairs > 0) {
        products_2x2(column, w, words, sums, 4 * apart, taps, pairs);
    }
    if (filters % 2 != 0) { /* twice by the same weights */
        products_2x2(column, w + 2 * pairs * taps, words, sums + 2 * pairs * apart, 8, 0, 1);
    }
}

/* The outer weights of a row of three, and the one between them. */
typedef struct kernel_row {
    uint32_t outer;
    int32_t middle;
} kernel_row;

static inline int32_t add_low_by_low(uint32_t a, int32_t b, int32_t sum)
{
    return __smlabb((int32_t)a, b, sum);
}

static inline int32_t add_high_by_low(uint32_t a, int32_t b, int32_t sum)
{
    return __smlatb((int32_t)a, b, sum);
}

__attribute__((always_inline)) static inline void add_row(const int8_t *x, int32_t stride, const kernel_row *w,
                                                          int32_t *first, int32_t *second)
{
    const uint32_t word = bytes_at(x, 4);
    const uint32_t even = even_bytes(word);
    const uint32_t odd = odd_bytes(word);
    *first = add_low_by_low(odd, w->middle, __smlad((int32_t)even, (int32_t)w->outer, *first));
    if (stride == 1) {
        *second = add_high_by_low(even, w->middle, __smlad((int32_t)odd, (int32_t)w->outer, *second));
    } else {
        *second = add_high_by_low(even, (int32_t)w->outer, add_high_by_low(odd, w->middle, *second));
        *second += x[4] * ((int32_t)w->outer >> 16);
    }
}

__attribute__((always_inline)) static inline void sum_windows(const int8_t *const *lines, int32_t stride,
                                                              const kernel_row *w, int32_t *sums, int32_t count)
{
    const int8_t *a = lines[0];
    const int8_t *b = lines[1];
    const int8_t *c = lines[2];
    for (; count > 0; count -= 2, sums += 2, a += 2 * stride, b += 2 * stride, c += 2 * stride) {
        int32_t first = 0;
        int32_t second = 0;
        add_row(a, stride, &w[0], &first, &second);
        add_row(b, stride, &w[1], &first, &second);
        add_row(c, stride, &w[2], &first, &second);
        sums[0] = first;
        sums[1] = second;
    }
}

void poet_windows_s8(const int8_t *const *lines, int32_t stride, const int8_t *w, int32_t *sums, int32_t count)
{
    kernel_row rows[3];
    for (int32_t r = 0; r < 3; r++) {
        rows[r].outer = (uint32_t)(uint16_t)w[3 * r] | (uint32_t)(int32_t)w[3 * r + 2] << 16;
        rows[r].middle = w[3 * r + 1];
    }
    if (stride == 1) {
        sum_windows(lines, 1, rows, sums, count);
    } else {
        sum_windows(lines, 2, rows, sums, count);
    }
}

void poet_results_s8(const int32_t *sums, int32_t count, int32_t start, float scale, const poet_range_s8 *range,
                     int8_t *y)
{
    const poet_scale_s8 by = poet_scale_s8_of(scale);
    const poet_range_s8 within = *range;
    for (int32_t i = 0; i < count; i++) {
        y[i] = poet_result_s8(poet_wrapped_sum(sums[i], start), &by, &within);
    }
}
