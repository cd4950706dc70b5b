/* SPDX-License-Identifier: Apache-2.0 */
/* What a model's tables say to those who have no card, too: it names nothing that moves a tensor. */
#include "poet/record.h"
#include "poet/saved.h"

uint32_t poet_saved_bytes(const poet_model *model)
{
    uint32_t bytes = 0;
    for (uint32_t i = 0; i < model->resident_count; i++) {
        const poet_resident *resident = &model->residents[i];
        if (resident->kind == POET_RESIDENT_PARAMETER || resident->kind == POET_RESIDENT_STATE) {
            bytes += resident->bytes;
        }
    }
    return bytes;
}

static bool infers(const poet_model *model)
{
    for (uint32_t i = 0; i < model->resident_count; i++) {
        if (model->residents[i].kind == POET_RESIDENT_OUTPUT) {
            return true;
        }
    }
    return false;
}

bool poet_record_ends_steps(const poet_model *model)
{
    if (infers(model)) {
        return false;
    }
    for (uint32_t i = 0; i < model->kept_count; i++) {
        const poet_kept *kept = &model->kept[i];
        if (kept->kind == POET_RESIDENT_INPUT || kept->kind == POET_RESIDENT_TARGET ||
            kept->check < model->unit_count) {
            return true;
        }
    }
    return false;
}
