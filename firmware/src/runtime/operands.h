/* SPDX-License-Identifier: Apache-2.0 */
/* What an operand's number refers to: values, residents, constants, kept tensors, in this order. */
#ifndef POET_RUNTIME_OPERANDS_H
#define POET_RUNTIME_OPERANDS_H

#include <stdbool.h>

#include "poet/model.h"

/* Numbers below these are of the kind, or of one before it. */
static inline uint32_t residents_end(const poet_model *model)
{
    return (uint32_t)model->value_count + model->resident_count;
}

static inline uint32_t constants_end(const poet_model *model)
{
    return residents_end(model) + model->constant_count;
}

static inline const poet_constant *constant(const poet_model *model, uint16_t reference)
{
    return &model->constants[reference - residents_end(model)];
}

static inline bool is_resident(const poet_model *model, uint16_t reference)
{
    return reference >= model->value_count && reference < residents_end(model);
}

static inline bool is_kept(const poet_model *model, uint16_t reference)
{
    return reference >= constants_end(model);
}

static inline const poet_kept *kept_of(const poet_model *model, uint16_t reference)
{
    return &model->kept[reference - constants_end(model)];
}

static inline uint32_t operand_bytes(const poet_model *model, uint16_t reference)
{
    if (reference < model->value_count) {
        return model->values[reference].bytes;
    }
    if (is_resident(model, reference)) {
        return model->residents[reference - model->value_count].bytes;
    }
    return is_kept(model, reference) ? kept_of(model, reference)->bytes : constant(model, reference)->bytes;
}

/* Of a model of several micro-batches: what adds up over them. */
static inline bool is_sum(const poet_resident *resident)
{
    return resident->kind == POET_RESIDENT_GRADIENT || resident->kind == POET_RESIDENT_LOSS;
}

static inline bool outlives_the_step(const poet_model *model, uint16_t reference)
{
    if (!is_resident(model, reference)) {
        return false;
    }
    const uint8_t kind = model->residents[reference - model->value_count].kind;
    return kind == POET_RESIDENT_PARAMETER || kind == POET_RESIDENT_STATE;
}

#endif
