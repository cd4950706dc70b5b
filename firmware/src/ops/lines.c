#include "lines.h"

#include <string.h>

#include "shape.h"

uint32_t poet_lines_bytes(int32_t channels, int64_t rows, int64_t width)
{
    return rows > INT32_MAX || width > INT32_MAX ? 0 : 4 * poet_count(channels, (int32_t)rows, (int32_t)width, 1);
}

static void fill_line(const poet_lines *shape, const float *row, float *line)
{
    const int32_t first = shape->left < 0 ? -shape->left : 0;
    const int32_t after = shape->w - shape->left;
    const int32_t end = after < shape->width ? after : shape->width;
    if (row == NULL || first >= end) {
        memset(line, 0, (size_t)shape->width * sizeof *line);
        return;
    }
    if (first > 0) {
        memset(line, 0, (size_t)first * sizeof *line);
    }
    memcpy(line + first, row + shape->left + first, (size_t)(end - first) * sizeof *line);
    if (end < shape->width) {
        memset(line + end, 0, (size_t)(shape->width - end) * sizeof *line);
    }
}

void poet_lines_fill(const poet_lines *shape, const float *input, int32_t top, float *lines)
{
    for (int32_t channel = 0; channel < shape->channels; channel++) {
        for (int32_t row = 0; row < shape->rows; row++) {
            const int32_t y = top + row;
            const int inside = y >= 0 && y < shape->h;
            fill_line(shape, inside ? input + (channel * shape->h + y) * shape->w : NULL, lines);
            lines += shape->width;
        }
    }
}
