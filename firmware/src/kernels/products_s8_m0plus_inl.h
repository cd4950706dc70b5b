/* SPDX-License-Identifier: Apache-2.0 */
/* Of columns as columns_s8_c_inl.h has them: one MULS gives the products of two pixels. Of a pair of taps they are
 * t = a + (b << 16), and a fits 16 bits. With u = t + 0x8000, u >> 16 is b. So the sum of all u, modulo 2^32, less
 * 2^16 times the sum of all b and less 0x8000 a pair, is the sum of all a. */

/* Sums of two pixels by two filters, whose `taps`, an even number, end at w0 and w1. Those of the second filter go
 * `apart` bytes behind those of the first. `excess` is 0x8000 a pair of taps. */
FUNCTION_IN_ASSEMBLY static void
products_2x2(const uint32_t *column __attribute__((unused)), const int8_t *w0 __attribute__((unused)),
             const int8_t *w1 __attribute__((unused)), int32_t minus_taps __attribute__((unused)),
             int32_t *sums __attribute__((unused)), int32_t apart __attribute__((unused)),
             int32_t excess __attribute__((unused)))
{
    /* clang-format off */
    __asm__(".syntax unified\n"
            "push {r4-r7, lr}\n"
            "mov r4, r8\n mov r5, r9\n mov r6, r10\n mov r7, r11\n push {r4-r7}\n"
            "movs r4, #1\n lsls r4, r4, #15\n mov r12, r4\n"
            "movs r5, #0\n mov r8, r5\n mov r9, r5\n mov r10, r5\n mov r11, r5\n"
            ".balign 8\n"
            "1: ldmia r0!, {r4, r5}\n"
            "ldrsb r6, [r1, r3]\n ldrsb r7, [r2, r3]\n"
            "muls r6, r4\n muls r7, r4\n"
            "adds r3, #1\n"
            "ldrsb r4, [r1, r3]\n muls r4, r5\n adds r6, r6, r4\n"
            "ldrsb r4, [r2, r3]\n muls r4, r5\n adds r7, r7, r4\n"
            "add r6, r12\n add r8, r6\n asrs r6, r6, #16\n add r9, r6\n"
            "add r7, r12\n add r10, r7\n asrs r7, r7, #16\n add r11, r7\n"
            "adds r3, #1\n bmi 1b\n"
            "ldr r0, [sp, #36]\n ldr r2, [sp, #40]\n ldr r3, [sp, #44]\n adds r2, r2, r0\n"
            "mov r4, r8\n mov r5, r9\n lsls r1, r5, #16\n subs r4, r4, r1\n subs r4, r4, r3\n stmia r0!, {r4, r5}\n"
            "mov r4, r10\n mov r5, r11\n lsls r1, r5, #16\n subs r4, r4, r1\n subs r4, r4, r3\n stmia r2!, {r4, r5}\n"
            "pop {r4-r7}\n mov r8, r4\n mov r9, r5\n mov r10, r6\n mov r11, r7\n"
            "pop {r4-r7, pc}\n");
    /* clang-format on */
}

void poet_products_s8(const uint32_t *column, int32_t taps, const int8_t *w, int32_t filters, int32_t *sums,
                      int32_t apart)
{
    const int32_t even = taps + taps % 2;
    for (int32_t k = 0; k < filters; k += 2, w += 2 * taps, sums += 2 * apart) {
        const int32_t two = k + 1 < filters;
        products_2x2(column, w + even, w + even + (two ? taps : 0), -even, sums, two ? 4 * apart : 8, even << 14);
    }
}

/* What the results of one filter are made with. The first ten words are copied to the stack, the others to registers.
 */
typedef struct result_row {
    const int32_t *end;
    uint32_t limit; /* twice the band, where fractions are compared */
    int32_t zero, range_high, range_low;
    float scale;
    int32_t half, twice_most, start;
    int32_t (*by_floats)(int32_t sum, float scale);
    int32_t floor, low, high, most, left, shift;
    uint32_t band;
} result_row;

/* As poet_result_s8, of a scale that drops no bits. */
FUNCTION_IN_ASSEMBLY static void scale_row(const int32_t *sums __attribute__((unused)),
                                           int32_t none __attribute__((unused)), int8_t *y __attribute__((unused)),
                                           const result_row *row __attribute__((unused)))
{
    /* r0 sums, r2 y, r8 floor, r9 low, r10 high, r11 most, r1 left, r3 shift, r7 band, lr half, r12 twice_most */
    /* clang-format off */
    __asm__(".syntax unified\n"
            "push {r4-r7, lr}\n mov r4, r8\n mov r5, r9\n mov r6, r10\n mov r7, r11\n push {r4-r7}\n"
            "sub sp, #44\n mov r1, sp\n"
            "ldmia r3!, {r4-r7}\n stmia r1!, {r4-r7}\n"
            "ldmia r3!, {r4-r7}\n stmia r1!, {r4-r7}\n mov lr, r6\n mov r12, r7\n"
            "ldmia r3!, {r4, r5}\n stmia r1!, {r4, r5}\n"
            "ldmia r3!, {r4-r7}\n mov r8, r4\n mov r9, r5\n mov r10, r6\n mov r11, r7\n"
            "ldmia r3!, {r1, r6, r7}\n mov r3, r6\n"
            ".balign 8\n"
            "1: ldmia r0!, {r4}\n ldr r6, [sp, #32]\n adds r4, r4, r6\n"
            "cmp r4, r8\n ble 5f\n"
            "mov r5, r11\n adds r5, r4, r5\n cmp r5, r12\n bhi 6f\n"
            "2: mov r5, r9\n muls r5, r4\n asrs r5, r5, #12\n mov r6, r10\n muls r4, r6\n"
            "adds r4, r4, r5\n add r4, lr\n"
            "adds r5, r4, r7\n lsls r5, r1\n ldr r6, [sp, #4]\n cmp r5, r6\n blo 7f\n"
            "asrs r4, r3\n"
            "3: ldr r6, [sp, #8]\n adds r4, r4, r6\n"
            "ldr r6, [sp, #12]\n cmp r4, r6\n bgt 8f\n"
            "ldr r6, [sp, #16]\n cmp r4, r6\n blt 8f\n"
            "4: strb r4, [r2]\n adds r2, #1\n ldr r6, [sp]\n cmp r0, r6\n bne 1b\n"
            "add sp, #44\n pop {r4-r7}\n mov r8, r4\n mov r9, r5\n mov r10, r6\n mov r11, r7\n"
            "pop {r4-r7, pc}\n"
            "5: ldr r4, [sp, #16]\n b 4b\n"
            "8: mov r4, r6\n b 4b\n"
            "6: cmp r4, #0\n mov r4, r11\n bge 2b\n rsbs r4, r4, #0\n b 2b\n"
            "7: push {r0-r3}\n subs r0, #4\n ldr r0, [r0]\n ldr r6, [sp, #48]\n adds r0, r0, r6\n"
            "ldr r1, [sp, #36]\n ldr r6, [sp, #52]\n blx r6\n mov r4, r0\n"
            "pop {r0-r3}\n ldr r5, [sp, #24]\n mov lr, r5\n ldr r5, [sp, #28]\n mov r12, r5\n b 3b\n");
    /* clang-format on */
}

void poet_results_s8(const int32_t *sums, int32_t count, int32_t start, float scale, const poet_range_s8 *range,
                     int8_t *y)
{
    const poet_scale_s8 by = poet_scale_s8_of(scale);
    if (by.shift == 0 || by.dropped > 0) {
        for (int32_t i = 0; i < count; i++) {
            y[i] = poet_result_s8(poet_wrapped_sum(sums[i], start), &by, range);
        }
        return;
    }
    const result_row row = {
        .end = sums + count,
        .limit = by.band << (33 - by.shift),
        .zero = range->zero,
        .range_high = range->high,
        .range_low = range->low,
        .scale = scale,
        .half = 1 << (by.shift - 1),
        .twice_most = 2 * POET_MOST_SUM,
        .start = start,
        .by_floats = poet_scaled_by_floats,
        .floor = range->low >= range->zero ? 0 : INT32_MIN,
        .low = by.low,
        .high = by.high,
        .most = POET_MOST_SUM,
        .left = 32 - by.shift,
        .shift = by.shift,
        .band = by.band,
    };
    scale_row(sums, 0, y, &row);
}
