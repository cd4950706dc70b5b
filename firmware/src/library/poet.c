/* SPDX-License-Identifier: Apache-2.0 */
#include "poet/poet.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "poet/checkpoint.h"
#include "poet/crc32.h"
#include "poet/record.h"
#include "poet/saved.h"

static const poet_model *model_of(const poet *p)
{
    return p->network->train->model;
}

static bool is_idle(const poet *p)
{
    return p->network != NULL && !p->run.under_way;
}

static int check_network(const poet_network *network)
{
    const poet_model *model = network->train->model;
    if (model->kept_count > 0) {
        return POET_E_UNSUPPORTED;
    }
    if (network->initial == NULL) {
        return POET_OK;
    }
    return network->initial_bytes == poet_saved_bytes(model) &&
                   poet_crc32(0, network->initial, network->initial_bytes) == network->initial_crc
               ? POET_OK
               : POET_E_CORRUPT;
}

static void set_residents(const poet_network *network, uint8_t *residents)
{
    const poet_model *model = network->train->model;
    const uint8_t *initial = network->initial;
    memset(residents, 0, model->resident_bytes);
    for (uint32_t i = 0; initial != NULL && i < model->resident_count; i++) {
        const poet_resident *resident = &model->residents[i];
        if (resident->kind == POET_RESIDENT_PARAMETER || resident->kind == POET_RESIDENT_STATE) {
            memcpy(residents + resident->offset, initial, resident->bytes);
            initial += resident->bytes;
        }
    }
}

static int open_card(poet *p, const poet_block_device *card)
{
    if (card == NULL) {
        return poet_runner_needs_card(&p->runner, false) ? POET_E_ABSENT : POET_OK;
    }
    int status = poet_pager_open(&p->pager, card);
    if (status == POET_OK) {
        status = poet_record_check_others(card, 0);
    }
    p->card = card;
    p->run.pager = &p->pager;
    return status;
}

int poet_begin(poet *p, const poet_network *network, void *ram, uint32_t ram_bytes, const poet_block_device *card,
               const poet_hooks *hooks)
{
    *p = (poet){.network = NULL};
    if (ram == NULL || (uintptr_t)ram % sizeof(uint32_t) != 0u) {
        return POET_E_ARGUMENT;
    }
    int status =
        poet_runner_init(&p->runner, network->train->model, network->train->schedule, network->tables, ram, ram_bytes);
    if (status == POET_OK) {
        status = check_network(network);
    }
    if (status == POET_OK) {
        status = open_card(p, card);
    }
    if (status != POET_OK) {
        return status;
    }
    set_residents(network, ram);
    if (hooks != NULL) {
        p->hooks = *hooks;
        p->run.hooks = &p->hooks;
    }
    p->network = network;
    return POET_OK;
}

int poet_restore(poet *p)
{
    uint32_t bytes;
    if (!is_idle(p)) {
        return POET_E_ORDER;
    }
    return p->card == NULL ? POET_E_ABSENT
                           : poet_checkpoint_restore(p->card, model_of(p), p->runner.residents, &p->steps, &bytes);
}

int poet_commit(poet *p)
{
    uint32_t bytes;
    if (!is_idle(p)) {
        return POET_E_ORDER;
    }
    return p->card == NULL ? POET_E_ABSENT
                           : poet_checkpoint_commit(p->card, model_of(p), p->runner.residents, p->steps, &bytes);
}

/* A sample in the first tensor of this kind. */
static void *sample_of(poet *p, uint8_t kind, uint32_t sample)
{
    if (p->network == NULL || sample >= p->network->batch) {
        return NULL;
    }
    const poet_model *model = model_of(p);
    for (uint32_t i = 0; i < model->resident_count; i++) {
        if (model->residents[i].kind == kind) {
            return p->runner.residents + model->residents[i].offset +
                   sample * (model->residents[i].bytes / p->network->batch);
        }
    }
    return NULL;
}

void *poet_input(poet *p, uint32_t sample)
{
    return sample_of(p, POET_RESIDENT_INPUT, sample);
}

void *poet_target(poet *p, uint32_t sample)
{
    return sample_of(p, POET_RESIDENT_TARGET, sample);
}

static int count(poet *p, int status)
{
    p->steps += status == POET_OK;
    return status;
}

int poet_train(poet *p, float rate)
{
    if (!is_idle(p)) {
        return POET_E_ORDER;
    }
    p->run.learning_rate = rate;
    return count(p, poet_runner_step(&p->runner, &p->run));
}

int poet_train_begin(poet *p, float rate)
{
    if (!is_idle(p)) {
        return POET_E_ORDER;
    }
    p->run.learning_rate = rate;
    return poet_runner_begin(&p->runner, &p->run);
}

int poet_next(poet *p)
{
    return p->network == NULL ? POET_E_ORDER : count(p, poet_runner_next(&p->runner, &p->run));
}

int poet_settle(poet *p)
{
    return p->network == NULL ? POET_E_ORDER : poet_runner_settle(&p->runner, &p->run);
}

int poet_stop(poet *p)
{
    return p->network == NULL ? POET_E_ORDER : count(p, poet_runner_stop(&p->runner, &p->run));
}

uint32_t poet_steps(const poet *p)
{
    return p->steps;
}

float poet_loss(const poet *p)
{
    return p->network == NULL ? 0.0f : poet_runner_loss(&p->runner);
}

void *poet_tensor(poet *p, uint16_t resident)
{
    if (p->network == NULL || resident >= model_of(p)->resident_count) {
        return NULL;
    }
    return p->runner.residents + model_of(p)->residents[resident].offset;
}
