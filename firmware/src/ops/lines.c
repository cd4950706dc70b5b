#include "lines.h"

#include "shape.h"
#include "stretch.h"

uint32_t poet_lines_bytes(int32_t channels, int64_t rows, int64_t width)
{
    return rows > INT32_MAX || width > INT32_MAX ? 0 : 4 * poet_count(channels, (int32_t)rows, (int32_t)width, 1);
}

/* For the few beside a row: a library call takes longer than they do. Returns where they end. */
static float *put_zeros(float *at, int32_t count)
{
    for (; count > 0; count--) {
        *at++ = 0.0f;
        __asm__("" : "+r"(at)); /* or the compiler makes a library call of it */
    }
    return at;
}

void poet_lines_fill(const poet_lines *shape, const float *input, int32_t top, float *lines)
{
    const int32_t before = shape->left < 0 ? -shape->left : 0;
    const int32_t past = shape->left + shape->width - shape->w;
    const int32_t after = past > 0 ? past : 0;
    const int32_t inside = shape->width - before - after;
    for (int32_t channel = 0; channel < shape->channels; channel++) {
        for (int32_t y = top; y < top + shape->rows; y++) {
            if (y < 0 || y >= shape->h || inside <= 0) {
                lines = poet_clear(lines, shape->width);
                continue;
            }
            const int32_t first = (channel * shape->h + y) * shape->w + shape->left + before;
            lines = put_zeros(lines, before);
            lines = poet_copy(lines, input + first, inside);
            lines = put_zeros(lines, after);
        }
    }
}
