/* SPDX-License-Identifier: Apache-2.0 */
/* In place of the rule (linked with --wrap): every convolution is computed directly. */
#include "winograd.h"

bool __wrap_poet_winograd_suits(int32_t n, int32_t groups, int32_t channels, int32_t filters,
                                const poet_windows *windows);

bool __wrap_poet_winograd_suits(int32_t n, int32_t groups, int32_t channels, int32_t filters,
                                const poet_windows *windows)
{
    (void)n;
    (void)groups;
    (void)channels;
    (void)filters;
    (void)windows;
    return false;
}
