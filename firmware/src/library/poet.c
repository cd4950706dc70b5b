/* SPDX-License-Identifier: Apache-2.0 */
#include "poet/poet.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "poet/crc32.h"
#include "poet/feature_maker.h"
#include "poet/keeping.h"
#include "poet/saved.h"

#include "card.h"

static const poet_model *model_of(const poet *p)
{
    return p->network->train->model;
}

static int check_network(const poet_network *network)
{
    const poet_model *model = network->train->model;
    if (model->kept_count > 0 && network->keeping == NULL) {
        return POET_E_UNSUPPORTED;
    }
    const bool is_whole =
        network->initial == NULL || (network->initial_bytes <= poet_saved_bytes(model) &&
                                     poet_crc32(0, network->initial, network->initial_bytes) == network->initial_crc);
    return is_whole ? POET_OK : POET_E_CORRUPT;
}

static void set_residents(const poet_network *network, uint8_t *residents)
{
    const poet_model *model = network->train->model;
    const uint8_t *initial = network->initial;
    uint32_t left = initial == NULL ? 0u : network->initial_bytes;
    memset(residents, 0, model->resident_bytes);
    for (uint32_t i = 0; left > 0 && i < model->resident_count; i++) {
        const poet_resident *resident = &model->residents[i];
        if (resident->kind == POET_RESIDENT_PARAMETER || resident->kind == POET_RESIDENT_STATE) {
            for (uint32_t at = 0; at < resident->bytes && left > 0; at++, left--) {
                residents[resident->offset + at] = *initial++;
            }
        }
    }
}

static int open_card(poet *p, const poet_network *network, const poet_block_device *card)
{
    if (card == NULL) {
        return poet_needs_card(network->train) || poet_needs_card(network->infer) ? POET_E_ABSENT : POET_OK;
    }
    return poet_open_card == NULL ? POET_E_UNSUPPORTED : poet_open_card(p, network, card);
}

__attribute__((cold)) int poet_begin(poet *p, const poet_network *network, void *ram, uint32_t ram_bytes,
                                     const poet_block_device *card, const poet_hooks *hooks)
{
    *p = (poet){.network = NULL};
    if (ram == NULL || (uintptr_t)ram % sizeof(uint32_t) != 0u) {
        return POET_E_ARGUMENT;
    }
    int status = poet_arithmetic_is_ieee() ? POET_OK : POET_E_ARITHMETIC;
    if (status == POET_OK) {
        status = poet_runner_init(&p->runner, network->train->model, network->train->schedule, network->tables, ram,
                                  ram_bytes);
    }
    if (status == POET_OK) {
        status = check_network(network);
    }
    if (status == POET_OK && network->infer != NULL) {
        status = poet_runner_check_inference(network->infer, network->train->model, ram_bytes);
    }
    if (status == POET_OK && network->stream != NULL) {
        status = poet_runner_check_inference(network->stream, network->train->model, ram_bytes);
    }
    if (status == POET_OK && network->maker != NULL) {
        status = network->maker->check(network, ram_bytes, card != NULL);
    }
    if (status == POET_OK) {
        status = open_card(p, network, card);
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

/* A sample in the first tensor of this kind. */
static void *sample_of(poet *p, uint8_t kind, uint32_t sample)
{
    if (p->network == NULL || sample >= p->network->batch) {
        return NULL;
    }
    const poet_model *model = model_of(p);
    for (uint32_t i = 0; i < model->resident_count; i++) {
        if (model->residents[i].kind == kind) {
            return p->runner.ram + model->residents[i].offset +
                   sample * (model->residents[i].bytes / p->network->batch);
        }
    }
    const poet_keeping *keeping = p->network->keeping;
    return keeping == NULL || keeping->sample == NULL ? NULL : keeping->sample(p, kind, sample);
}

void *poet_input(poet *p, uint32_t sample)
{
    return sample_of(p, POET_RESIDENT_INPUT, sample);
}

void *poet_target(poet *p, uint32_t sample)
{
    return sample_of(p, POET_RESIDENT_TARGET, sample);
}

void *poet_features(poet *p, uint32_t sample)
{
    return sample_of(p, POET_RESIDENT_FEATURE, sample);
}

static int count(poet *p, int status)
{
    p->steps += status == POET_OK;
    if (status < POET_OK) {
        p->stale = p->commits; /* what the step left in RAM counts once its commit is done */
    }
    return status;
}

/* Tensors in RAM as the record has them; what a stream remembers is lost. */
static int refresh(poet *p)
{
    p->heard = 0;
    return p->stale ? p->network->keeping->restore(p) : POET_OK;
}

/* Before a step. */
static int prepare(poet *p)
{
    const int status = refresh(p);
    const poet_keeping *keeping = p->network->keeping;
    return status != POET_OK || keeping == NULL || keeping->give == NULL ? status : keeping->give(p);
}

/* After a piece of a step, of which the features may be the first part. */
static int go_on(poet *p, int status)
{
    return p->making > 0 && status != POET_MORE ? p->network->maker->go_on(p, status) : count(p, status);
}

int poet_train(poet *p, float rate)
{
    if (!poet_is_idle(p)) {
        return POET_E_ORDER;
    }
    p->run.learning_rate = rate;
    int status = prepare(p);
    if (status == POET_OK && p->network->maker != NULL) {
        status = p->network->maker->make(p);
    }
    return status != POET_OK ? status : count(p, poet_runner_step(&p->runner, &p->run));
}

int poet_train_begin(poet *p, float rate)
{
    if (!poet_is_idle(p)) {
        return POET_E_ORDER;
    }
    const int status = prepare(p);
    if (status != POET_OK) {
        return status;
    }
    p->run.learning_rate = rate;
    return p->network->maker == NULL ? poet_runner_begin(&p->runner, &p->run) : p->network->maker->begin(p);
}

int poet_next(poet *p)
{
    return p->network == NULL ? POET_E_ORDER : go_on(p, poet_runner_next(&p->runner, &p->run));
}

int poet_settle(poet *p)
{
    const int status = p->network == NULL ? POET_E_ORDER : poet_runner_settle(&p->runner, &p->run);
    return status == POET_OK || p->network == NULL ? status : go_on(p, status);
}

int poet_stop(poet *p)
{
    if (poet_gathered(p) > 0 && !p->run.under_way) {
        poet_runner_forget_sums(&p->runner);
        return POET_STOPPED;
    }
    return p->network == NULL ? POET_E_ORDER : go_on(p, poet_runner_stop(&p->runner, &p->run));
}

/* Whether the sums of a batch's parts are in its place. */
static bool is_kept_out(const poet *p, const poet_plan *plan)
{
    return p->runner.gathered > 0 && poet_is_in_gradients(plan->model, model_of(p));
}

static int infer(poet *p, const poet_plan *plan)
{
    const int fresh = is_kept_out(p, plan) ? POET_E_ORDER : refresh(p);
    if (fresh != POET_OK) {
        return fresh;
    }
    poet_runner runner;
    poet_run run; /* what is not set here, poet_runner_begin sets */
    run.pager = p->run.pager;
    run.record = p->run.record;
    run.hooks = p->run.hooks;
    run.learning_rate = 0.0f;
    run.trace = false;
    poet_runner_open(&runner, plan->model, plan->schedule, p->network->tables, p->runner.ram, p->network->ram_bytes);
    return poet_runner_step(&runner, &run);
}

int poet_infer(poet *p)
{
    if (!poet_is_idle(p)) {
        return POET_E_ORDER;
    }
    return p->network->infer == NULL ? POET_E_ABSENT : infer(p, p->network->infer);
}

static void forget(const poet *p, const poet_model *model)
{
    for (uint32_t i = 0; i < model->resident_count; i++) {
        if (model->residents[i].kind == POET_RESIDENT_HISTORY) {
            memset(p->runner.ram + model->residents[i].offset, 0, model->residents[i].bytes);
        }
    }
}

int poet_stream(poet *p)
{
    if (!poet_is_idle(p)) {
        return POET_E_ORDER;
    }
    const poet_plan *plan = p->network->stream;
    if (plan == NULL) {
        return POET_E_ABSENT;
    }
    const uint32_t heard = p->heard;
    if (heard == 0) {
        forget(p, plan->model);
    }
    const int status = infer(p, plan);
    if (status != POET_OK) {
        return status;
    }
    p->heard = heard < p->network->stream_calls ? heard + 1u : heard;
    return p->heard < p->network->stream_calls ? POET_MORE : POET_OK;
}

/* The first tensor of this kind that a plan has behind those of the training, which only counts while no training step
 * uses its place. */
static void *own_of(const poet *p, const poet_plan *plan, uint8_t kind)
{
    if (plan == NULL || !poet_is_idle(p) || is_kept_out(p, plan)) {
        return NULL;
    }
    for (uint32_t i = model_of(p)->resident_count; i < plan->model->resident_count; i++) {
        if (plan->model->residents[i].kind == kind) {
            return p->runner.ram + plan->model->residents[i].offset;
        }
    }
    return NULL;
}

static void *of_inference(const poet *p, uint8_t kind)
{
    return p->network == NULL ? NULL : own_of(p, p->network->infer, kind);
}

static void *of_stream(const poet *p, uint8_t kind)
{
    return p->network == NULL ? NULL : own_of(p, p->network->stream, kind);
}

void *poet_infer_input(poet *p)
{
    return of_inference(p, POET_RESIDENT_INPUT);
}

const float *poet_output(const poet *p)
{
    return of_inference(p, POET_RESIDENT_OUTPUT);
}

void *poet_stream_input(poet *p)
{
    return of_stream(p, POET_RESIDENT_INPUT);
}

const float *poet_stream_output(const poet *p)
{
    return of_stream(p, POET_RESIDENT_OUTPUT);
}

uint32_t poet_argmax(const float *scores, uint32_t count)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < count; i++) {
        best = scores[i] > scores[best] ? i : best;
    }
    return best;
}

uint32_t poet_steps(const poet *p)
{
    return p->steps;
}

uint32_t poet_gathered(const poet *p)
{
    return p->network == NULL ? 0u : p->runner.gathered;
}

float poet_loss(const poet *p)
{
    return p->network == NULL ? 0.0f : poet_runner_loss(&p->runner);
}

void *poet_tensor(poet *p, uint16_t resident)
{
    if (p->network == NULL) {
        return NULL;
    }
    const bool beside = poet_is_idle(p) && p->network->infer != NULL && !is_kept_out(p, p->network->infer);
    const poet_model *model = beside ? p->network->infer->model : model_of(p);
    return resident < model->resident_count ? p->runner.ram + model->residents[resident].offset : NULL;
}
