/* SPDX-License-Identifier: Apache-2.0 */
#include "shape.h"

#define MAX_ELEMENTS (UINT32_C(1) << 28)

uint32_t poet_count(int32_t a, int32_t b, int32_t c, int32_t d)
{
    const int32_t extents[] = {a, b, c, d};
    uint32_t count = 1;
    for (size_t i = 0; i < sizeof extents / sizeof *extents; i++) {
        if (extents[i] < 1 || (uint32_t)extents[i] > MAX_ELEMENTS / count) {
            return 0;
        }
        count *= (uint32_t)extents[i];
    }
    return count;
}

uint32_t poet_band_bytes(int32_t planes, int32_t of, int32_t rows, int32_t columns)
{
    const uint32_t all = poet_count(planes, of, columns, 1);
    return all == 0 || rows < 1 || rows > of ? 0 : 4 * (all - (uint32_t)((of - rows) * columns));
}

int poet_elementwise_sizes(int32_t size, uint32_t inputs, poet_sizes *sizes)
{
    return poet_rows_sizes(1, size, inputs, sizes);
}

int poet_rows_sizes(int32_t m, int32_t n, uint32_t inputs, poet_sizes *sizes)
{
    const uint32_t bytes = 4 * poet_count(m, n, 1, 1);
    if (bytes == 0) {
        return POET_E_ARGUMENT;
    }
    *sizes = (poet_sizes){.inputs = inputs, .outputs = 1, .output_bytes = {bytes}};
    for (uint32_t i = 0; i < inputs; i++) {
        sizes->input_bytes[i] = bytes;
    }
    return POET_OK;
}

void poet_sizes_reverse(poet_sizes *sizes)
{
    const uint32_t input = sizes->input_bytes[0];
    sizes->input_bytes[0] = sizes->output_bytes[0];
    sizes->output_bytes[0] = input;
}

int poet_sizes_accumulate(int status, poet_sizes *sizes)
{
    if (status == POET_OK) {
        sizes->input_bytes[3] = sizes->input_bytes[2]; /* a bias */
        sizes->input_bytes[2] = sizes->output_bytes[0];
        sizes->inputs++;
    }
    return status;
}

#define SPARE 255 /* strides and paddings beyond the tensors, of which PyTorch takes any */

/* Positions of the kernel along one axis, or 0. Loops over a stride's phases and places in a padded row are bounded by
 * what bounds the tensors. */
static int32_t positions(int32_t extent, int32_t kernel, int32_t stride, int32_t padding)
{
    const int32_t most = (int32_t)MAX_ELEMENTS; /* so that extent + 2 * padding fits 32 bits */
    if (extent < 1 || kernel < 1 || stride < 1 || padding < 0 || extent > most || kernel > most || padding > most ||
        padding > extent + kernel + SPARE || stride > extent + 2 * padding + SPARE) {
        return 0;
    }
    const int32_t room = extent + 2 * padding - kernel;
    return room < 0 ? 0 : room / stride + 1;
}

int poet_windows_place(poet_windows *windows)
{
    windows->oh = positions(windows->h, windows->r, windows->sh, windows->ph);
    windows->ow = positions(windows->w, windows->s, windows->sw, windows->pw);
    return windows->oh > 0 && windows->ow > 0 ? POET_OK : POET_E_ARGUMENT;
}
