/* SPDX-License-Identifier: Apache-2.0 */
#include "poet/built.h"

#include <stddef.h>

/* A symbol whose value is a number, for a board's linker script: the plan must fit beside the firmware. */
#define TELL_LINKER(name, number) TELL_LINKER_(name, number)
#define TELL_LINKER_(name, number) __asm__(".global " #name "\n.set " #name ", " #number)

#ifdef POET_NO_MODEL

TELL_LINKER(poet_built_ram_bytes, 0);
TELL_LINKER(poet_built_table_bytes, 0);

const poet_built poet_built_in = {NULL, NULL, {NULL, NULL, NULL, NULL}, NULL, NULL, &poet_all_operators};

#else

#include "poet_model.h"
#include "poet_schedule.h"

#if POET_BUILT_FORMAT != POET_PLAN_FORMAT
#error "poet_schedule.h is of another version of poet-plan: plan again"
#endif

TELL_LINKER(poet_built_ram_bytes, POET_BUILT_RAM_BYTES);
TELL_LINKER(poet_built_table_bytes, POET_BUILT_TABLE_BYTES);

/* Of the families of operators.def those that the plan needs; nothing links the others; and of the steps. */
#ifndef POET_BUILT_S8
#define POET_WITHOUT_S8
#endif
#ifndef POET_BUILT_BLOCKS
#define POET_WITHOUT_BLOCKS
#endif
#ifndef POET_BUILT_RECURRENT
#define POET_WITHOUT_RECURRENT
#endif
#define POET_STEP(code, NAME, name, kind, flops, value)     \
    extern const poet_step poet_##name##_step;              \
    extern const poet_step *const poet_##name##_step_named; \
    const poet_step *const poet_##name##_step_named =       \
        (POET_BUILT_STEPS >> (code) & 1u) != 0 ? &poet_##name##_step : NULL;
#include "poet/steps.def"
#undef POET_STEP

static const poet_operator operators[] = {
#define POET_OPERATOR(code, NAME, name, ...) POET_OPERATOR_ROW(NAME, name),
#include "poet/operators.def"
#undef POET_OPERATOR
};
static const poet_operator_set operator_set = {operators, sizeof operators / sizeof *operators};

static poet_page pages[POET_BUILT_PAGE_COUNT + 1]; /* C has no empty arrays */
static poet_check checks[POET_BUILT_CHECK_COUNT + 1];
static uint32_t homes[POET_HOME_WORDS(POET_BUILT_BIT_COUNT) + 1];
static poet_trace_part trace;

#ifdef POET_BUILT_INFERENCE
static const poet_plan inference = {&poet_built_inference_model, &poet_built_inference_schedule};
#define INFERENCE &inference
#else
#define INFERENCE NULL
#endif

#ifdef POET_BUILT_FEATURE_INFERENCE
static const poet_plan feature_inference = {&poet_built_feature_inference_model,
                                            &poet_built_feature_inference_schedule};
#define FEATURE_INFERENCE &feature_inference
#else
#define FEATURE_INFERENCE NULL
#endif

#ifdef POET_BUILT_EXTRACTED
static const poet_extraction extraction = {{&poet_built_extraction_model, &poet_built_extraction_schedule},
                                           POET_BUILT_SAMPLES,
                                           POET_BUILT_EXTRACTED,
                                           FEATURE_INFERENCE};
#define EXTRACTION &extraction
#else
#define EXTRACTION NULL
#endif

const poet_built poet_built_in = {
    &poet_built_model, &poet_built_schedule, {pages, checks, homes, &trace}, INFERENCE, EXTRACTION, &operator_set,
};

#endif
