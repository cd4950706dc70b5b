/* SPDX-License-Identifier: Apache-2.0 */
/* What an operator computes, and which of the Cortex-M4F's kernels it enters. The planner compiles the operators for
 * the computer that it runs on, and asks (profiles/poet_profiles/firmware/compiled_operators.py). Their products and
 * what is beside them come here, to functions that write down what is asked of them, and compute nothing. The first
 * product of a kind goes on to gemm.c or gemm_nt.c, which choose as on the board, among kernels that say that they were
 * entered.
 */
#include "../src/kernels/cursor_inl.h"
#include "../src/kernels/registers_m4f.h"
#include "../src/kernels/span.h"

#pragma GCC diagnostic ignored "-Wunused-parameter"

/* From here on as on the board; what is assembly there is a kernel, and stands below. */
#undef POET_FPU_ASSEMBLY
#undef POET_EVERY_REGISTER
#define POET_FPU_ASSEMBLY 1
#define POET_EVERY_REGISTER 1
#define poet_gemm_multiply choose_and_multiply
#define poet_gemm_nt_add choose_and_add
#define poet_im2col_clear clear_rows_laid_out
#define poet_im2col_fill lay_rows_out
#include "../src/kernels/gemm.c"
#include "../src/kernels/gemm_nt.c"
#include "../src/kernels/gradient_kernels.c"
#include "../src/kernels/im2col.c"
#undef poet_gemm_multiply
#undef poet_gemm_nt_add
#undef poet_im2col_clear
#undef poet_im2col_fill

#include <string.h>

#include "../src/kernels/depthwise.h"
#include "../src/kernels/depthwise_padded.h"
#include "../src/kernels/small_planes.h"
#include "../src/kernels/winograd.h"

/* clang-format off */
#define TILE_KERNELS(_) \
    _(singles) _(singles_stride_2) _(triples) _(triples_stride_2) _(strided) _(transposed) _(transposed_five) \
    _(transposed_spread) _(singles_pair) _(transposed_pair) _(strided_pair) _(gradient_3x3) _(gradient_three) \
    _(gradient_2x2) _(gradient_2x1) _(gradient_1x2) _(gradient_1x1) _(general)
#define NT_TILE_KERNELS(_) _(nt_fours) _(nt_fours_stride_2) _(nt_pairs)
#define KERNELS(_) TILE_KERNELS(_) NT_TILE_KERNELS(_) _(vector) _(outer) _(nt_row) _(nt_3x3) _(depthwise_padded)
#define DOORS(_) _(product) _(rows_by_rows) _(fill) _(winograd) _(winograd_gradient) _(depthwise)
#define WAYS(_) _(direct) _(winograd) _(depthwise) _(small_planes)
#define TEXT(name) #name " "
#define KERNEL(name) KERNEL_##name,
#define DOOR(name) DOOR_##name,
#define WAY(name) WAY_##name,
enum { KERNELS(KERNEL) };
enum { DOORS(DOOR) };
enum { WAYS(WAY) };
/* As Blocks of compiled_operators.py. */
const int32_t poet_blocks[] = {
    POET_TILE, FEW_ROWS, VECTOR_COLUMNS, POET_WINOGRAD_PART, POET_WINOGRAD_TILES, POET_WINOGRAD_TOGETHER,
    POET_DEPTHWISE_COLUMNS};
/* clang-format on */

const char poet_kernel_names[] = KERNELS(TEXT), poet_door_names[] = DOORS(TEXT), poet_way_names[] = WAYS(TEXT);
const uint8_t poet_depthwise_padded_kernels = 1, poet_depthwise_kernels = 1, poet_winograd_kernels = 1;

/* As Recorded of compiled_operators.py. Products of a kind have all in common up to `times`, with which begins what is
 * found out about them. Of a convolution that is no product `rows` are filters, and there are `n` images. */
typedef struct entry {
    int32_t door, n, height, width, started, windows;
    poet_gemm gemm;
    int32_t times, kernels, by_elements, tile_rows, in_place;
} entry;
const int32_t poet_entry_bytes = sizeof(entry);

static bool has_fpu;
static entry *entries, *entered; /* all, and the one whose product is under way */
static int32_t count, room;
static const float *result;

/* Whether it is the first of its kind. */
static bool record(entry kind)
{
    static entry lost; /* poet_record says that there are too many */
    int32_t at = 0;
    while (at < count && at < room && memcmp(&entries[at], &kind, offsetof(entry, times)) != 0) {
        at++;
    }
    const bool is_first = at >= count || at == room;
    entered = at < room ? &entries[at] : &lost;
    if (is_first) {
        *entered = kind;
        count = at + 1;
    }
    entered->times++;
    return is_first;
}

static void enter(int32_t kernel)
{
    entered->kernels |= 1 << kernel;
}

/* Its results are zeros, as all that an operator reads here. */
static void enter_tiles(int32_t kernel, const poet_cursor *cursor)
{
    for (int32_t row = 0; row < cursor->rows; row++) {
        (void)poet_clear(cursor->out + row * cursor->out_row, POET_TILE * cursor->tiles);
    }
    entered->in_place |= cursor->out == result;
    entered->tile_rows = cursor->rows;
    enter(kernel);
}

#define TILE_KERNEL(name)                              \
    void poet_kernel_##name(const poet_cursor *cursor) \
    {                                                  \
        enter_tiles(KERNEL_##name, cursor);            \
    }
#define NT_TILE_KERNEL(name)                              \
    void poet_kernel_##name(const poet_nt_cursor *cursor) \
    {                                                     \
        enter(KERNEL_##name);                             \
    }
TILE_KERNELS(TILE_KERNEL)
NT_TILE_KERNELS(NT_TILE_KERNEL)

void poet_kernel_vector(const poet_gemm *gemm, const float *a, const float *start, const float *b, float *out)
{
    enter(KERNEL_vector);
}

void poet_kernel_outer(const poet_gemm *gemm, const float *a, const float *b, float *out)
{
    enter(KERNEL_outer);
}

int32_t poet_kernel_nt_row(const poet_gemm_nt *gemm, int32_t columns, const float *a, const float *const *b, float *out)
{
    enter(KERNEL_nt_row);
    return columns - columns % 2;
}

void poet_kernel_nt_3x3(const poet_gemm_nt *gemm, const float *a, const float *const *b, float *out)
{
    enter(KERNEL_nt_3x3);
}

void poet_gemm_multiply(const poet_gemm *gemm, const float *a, const float *start, const float *b, float *out)
{
    const bool is_first = record((entry){.door = DOOR_product, .started = start != NULL, .gemm = *gemm});
    if (is_first && has_fpu) {
        result = out;
        choose_and_multiply(gemm, a, start, b, out);
        entered->by_elements = entered->kernels == 0 && multiply_vector(gemm, a, start, b, out);
    } else if (is_first && gemm->rows > FEW_ROWS) { /* multiply_tiles_c_inl.h: there is one kernel */
        entered->tile_rows = POET_TILE;
        entered->in_place = gemm->rows >= POET_TILE && gemm->columns >= POET_TILE && gemm->out_column == 1;
        enter(KERNEL_general);
    }
}

/* Adding to sums so far has its own kernels, which every program links. */
void poet_gemm_add(const poet_gemm *gemm, const float *a, const float *start, const float *b, float *out)
{
}

void poet_gemm_nt_add(const poet_gemm_nt *gemm, const float *a, const float *const *b, float *out)
{
    const poet_gemm nt = {gemm->rows, gemm->columns, .k_rows = gemm->k_rows, .taps = gemm->taps, .b_tap = gemm->b_tap};
    const bool windows = has_fpu && are_3x3_windows(gemm, b);
    if (record((entry){.door = DOOR_rows_by_rows, .windows = windows, .gemm = nt}) && has_fpu) {
        choose_and_add(gemm, a, b, out);
    }
}

bool poet_depthwise_padded_multiply(const poet_gemm *gemm, const float *w, const float *start, const float *x, float *y)
{
    if (!has_fpu || windows_kind_of(gemm) == WINDOWS_UNKNOWN) {
        return false;
    }
    (void)record((entry){.door = DOOR_product, .started = start != NULL, .gemm = *gemm});
    enter(KERNEL_depthwise_padded);
    return true;
}

void poet_im2col_clear(const poet_im2col *shape, float *matrix)
{
}

void poet_im2col_fill(const poet_im2col *shape, const float *input, int32_t top, float *matrix)
{
    const poet_span inside = poet_span_inside(shape->left, shape->width, shape->w);
    const poet_gemm rows = {.rows = shape->rows, .columns = inside.end - inside.first, .channels = shape->channels};
    (void)record((entry){.door = DOOR_fill, .gemm = rows});
}

static void record_planes(int32_t door, int32_t n, int32_t height, int32_t width, int32_t filters, int32_t channels)
{
    (void)record((entry){door, n, height, width, .gemm = {.rows = filters, .channels = channels}});
}

void poet_winograd_sum(const poet_winograd *job, const float *x, const float *w, const float *bias, float *workspace,
                       float *y)
{
    record_planes(DOOR_winograd, job->n, job->out_h, job->out_w, job->filters, job->channels);
}

void poet_winograd_add_weight_gradient(const poet_winograd *job, const float *gy, const float *x, float *workspace,
                                       float *gw)
{
    record_planes(DOOR_winograd_gradient, job->n, job->out_h, job->out_w, job->filters, job->channels);
}

void poet_depthwise_convolution(const poet_conv *conv, bool adds, int32_t first, int32_t channels, const float *x,
                                const float *w, const float *bias, float *y)
{
    record_planes(DOOR_depthwise, conv->n, conv->windows.oh, conv->windows.ow, channels, 1);
}

void poet_depthwise_input_gradient(const poet_conv *conv, bool adds, int32_t first, int32_t channels, const float *gy,
                                   const float *w, float *gx)
{
    poet_depthwise_convolution(conv, adds, first, channels, gy, w, NULL, gx);
}

void poet_depthwise_weight_gradient(const poet_conv *conv, int32_t first, int32_t channels, const float *gy,
                                    const float *x, float *gw)
{
    poet_depthwise_convolution(conv, true, first, channels, gy, x, NULL, gw);
}

/* By which of WAYS a convolution is computed: the first of its parameters are those of conv2d. Or a poet_status. */
int32_t poet_way_of(const int32_t *params)
{
    poet_conv conv;
    const int status = poet_conv_read(params, &conv);
    const int32_t direct = conv.depthwise ? WAY_depthwise : conv.small_planes ? WAY_small_planes : WAY_direct;
    return status != POET_OK ? status : conv.winograd ? WAY_winograd : direct;
}

int32_t poet_sizes_of(uint8_t code, const int32_t *params, poet_sizes *sizes)
{
    return poet_operator_find(&poet_all_operators, code)->sizes(params, sizes);
}

/* Entries of one call of an operator, and how many there are, which may be more than `most`; or a poet_status. Its
 * inputs and its workspace begin at `zeros`, its outputs at `more_zeros`. */
int32_t poet_record(uint8_t code, const int32_t *params, bool fpu, float *zeros, float *more_zeros, entry *into,
                    int32_t most)
{
    const void *inputs[POET_MAX_INPUTS];
    for (uint32_t i = 0; i < POET_MAX_INPUTS; i++) {
        inputs[i] = zeros;
    }
    void *outputs[POET_MAX_OUTPUTS] = {more_zeros, more_zeros, more_zeros, more_zeros, more_zeros, more_zeros};
    const poet_op_args args = {params, inputs, outputs, zeros, 0.0f, NULL, NULL};
    has_fpu = fpu;
    entries = into;
    room = most;
    count = 0;
    const int status = poet_operator_find(&poet_all_operators, code)->run(&args);
    return status != POET_OK ? status : count;
}
