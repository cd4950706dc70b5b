/* SPDX-License-Identifier: Apache-2.0 */
/* The compiler's own floating point in software, called over and over, and a call that does nothing for comparison. */
#include <stdint.h>

typedef float (*operation)(float, float);

extern float __aeabi_fadd(float, float);
extern float __aeabi_fsub(float, float);
extern float __aeabi_fmul(float, float);
extern float __aeabi_fdiv(float, float);

static float nothing(float a, float b)
{
    (void)b;
    return a;
}

static const operation operations[] = {nothing, __aeabi_fadd, __aeabi_fsub, __aeabi_fmul, __aeabi_fdiv};

void apply(int32_t which, const float *a, const float *b, float *y, int32_t count)
{
    const operation operation = operations[which];
    for (int32_t i = 0; i < count; i++) {
        y[i] = operation(a[i], b[i]);
    }
}
