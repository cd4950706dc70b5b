/* SPDX-License-Identifier: Apache-2.0 */
#include "shape.h"

#define MAX_ELEMENTS (UINT32_C(1) << 28)

/* False if the product makes no sense. */
static bool multiply(uint32_t *count, int32_t extent)
{
    if (extent < 1 || (uint32_t)extent > MAX_ELEMENTS / *count) {
        return false;
    }
    *count *= (uint32_t)extent;
    return true;
}

uint32_t poet_count(int32_t a, int32_t b, int32_t c, int32_t d)
{
    uint32_t count = 1;
    return multiply(&count, a) && multiply(&count, b) && multiply(&count, c) && multiply(&count, d) ? count : 0;
}

int poet_sizes_read(const char *tensors, const int32_t *params, poet_sizes *sizes)
{
    uint32_t *bytes = sizes->input_bytes, *tensor = &sizes->inputs;
    *sizes = (poet_sizes){0};
    for (;; tensors++) {
        uint32_t count = 1;
        int32_t there = *tensors >= '0' && *tensors != '>' && *tensors != '=';
        for (; *tensors >= 'a' || (*tensors >= '0' && *tensors <= '9'); tensors++) {
            const int32_t extent = *tensors >= 'a' ? params[*tensors - 'a'] : *tensors - '0';
            if (tensors[1] == '?') {
                there = extent;
                tensors++;
            } else if (!multiply(&count, extent)) {
                return POET_E_ARGUMENT;
            }
        }
        if ((there & ~1) != 0) {
            return POET_E_ARGUMENT;
        }
        bytes[*tensor] = there ? 4 * count : 0;
        *tensor += (uint32_t)there;
        if (*tensors == '\0') {
            return POET_OK;
        }
        if (*tensors != ',') {
            bytes = sizes->output_bytes, tensor = &sizes->outputs;
            sizes->in_place = *tensors == '=';
        }
    }
}

uint32_t poet_band_bytes(int32_t planes, int32_t of, int32_t rows, int32_t columns)
{
    const uint32_t all = poet_count(planes, of, columns, 1);
    return all == 0 || rows < 1 || rows > of ? 0 : 4 * (all - (uint32_t)((of - rows) * columns));
}

int poet_sizes_index(int status, int32_t bound, poet_sizes *sizes)
{
    sizes->index_input = 1;
    sizes->index_bytes = 4;
    sizes->index_bound = (uint32_t)bound;
    return status;
}

int poet_sizes_reversed(int status, poet_sizes *sizes)
{
    const uint32_t input = sizes->input_bytes[0];
    sizes->input_bytes[0] = sizes->output_bytes[0];
    sizes->output_bytes[0] = input;
    return status;
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
