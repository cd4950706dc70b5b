/* SPDX-License-Identifier: Apache-2.0 */
#include "registers_m4f.h"

#include "products_s8.h"

/* Assembly that takes every register, as a function of its own: the compiler knows of it what any function does. */
#ifdef __clang__
#define FUNCTION_IN_ASSEMBLY __attribute__((naked, noinline))
#else
#define FUNCTION_IN_ASSEMBLY __attribute__((naked, noipa))
#endif

#if defined(__ARM_ARCH_7EM__) && POET_S8_BY_FLOATS && POET_EVERY_REGISTER
#include "products_s8_m4f_inl.h"
#elif defined(__ARM_ARCH_6M__) && POET_EVERY_REGISTER
#include "columns_s8_c_inl.h"
#include "products_s8_m0plus_inl.h"
#else
#include "columns_s8_c_inl.h"
#include "products_s8_c_inl.h"
#endif
