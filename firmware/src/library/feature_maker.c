/* SPDX-License-Identifier: Apache-2.0 */
#include "poet/feature_maker.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "poet/features.h"

#include "card.h"

static const poet_feature_maker *maker_of(const poet *p)
{
    return p->network == NULL ? NULL : p->network->maker;
}

/* POET_OK for a call that may use features. */
static int ready(poet *p)
{
    if (p->network == NULL || p->run.under_way) {
        return POET_E_ORDER;
    }
    p->heard = 0;
    return maker_of(p) == NULL ? POET_E_ABSENT : POET_OK;
}

static void open_plan(const poet *p, poet_runner *runner, const poet_plan *plan)
{
    poet_runner_open(runner, plan->model, plan->schedule, p->network->tables, p->runner.ram, p->network->ram_bytes);
}

static void exchange(const poet *p, uint32_t first)
{
    poet_features_exchange(maker_of(p)->extraction, p->network->train->model, p->runner.ram, first);
}

static int run(const poet *p, const poet_plan *plan)
{
    poet_runner runner;
    poet_run run = {.pager = p->run.pager, .record = p->run.record, .hooks = p->run.hooks};
    open_plan(p, &runner, plan);
    return poet_runner_step(&runner, &run);
}

__attribute__((cold)) int poet_feature_maker_check(const poet_network *network, uint32_t ram_bytes, bool card)
{
    const poet_extraction *extraction = network->maker->extraction;
    if (extraction->samples != network->batch) {
        return POET_E_CORRUPT;
    }
    const int status = poet_features_check(extraction, network->train->model, ram_bytes);
    const bool needs_card = poet_needs_card(&extraction->plan) || poet_needs_card(extraction->infer);
    return status == POET_OK && needs_card && !card ? POET_E_ABSENT : status;
}

int poet_feature_maker_make(poet *p)
{
    const poet_extraction *extraction = maker_of(p)->extraction;
    int status = POET_OK;
    for (uint32_t first = 0; status == POET_OK && first < extraction->samples; first += extraction->at_once) {
        exchange(p, first);
        status = run(p, &extraction->plan);
        exchange(p, first);
    }
    return status;
}

/* The runner makes features from the place `p->making` on. */
static int begin_making(poet *p)
{
    const poet_extraction *extraction = maker_of(p)->extraction;
    open_plan(p, &p->runner, &extraction->plan);
    exchange(p, p->making);
    p->making += extraction->at_once;
    const int status = poet_runner_begin(&p->runner, &p->run);
    return status == POET_MORE ? status : poet_feature_maker_go_on(p, status);
}

int poet_feature_maker_begin(poet *p)
{
    p->making = 0;
    return begin_making(p);
}

int poet_feature_maker_go_on(poet *p, int status)
{
    const poet_extraction *extraction = maker_of(p)->extraction;
    exchange(p, p->making - extraction->at_once);
    if (status == POET_OK && p->making < extraction->samples) {
        return begin_making(p);
    }
    p->making = 0;
    open_plan(p, &p->runner, p->network->train);
    return status == POET_OK ? poet_runner_begin(&p->runner, &p->run) : status;
}

int poet_extract(poet *p)
{
    const int status = ready(p);
    return status == POET_OK ? poet_feature_maker_make(p) : status;
}

/* Of a check that another frozen part does not pass, and a reset does not change. */
static uint32_t seed_of(const poet *p, const poet_model *extraction)
{
    const poet_record *record = p->run.record;
    uint32_t seed = (uint32_t)extraction->graph_hash ^ extraction->constant_crc;
    for (uint32_t i = record != NULL ? record->model->unit_count : 0u; record != NULL && i < record->model->check_count;
         i++) {
        seed = (seed << 1 | seed >> 31) ^ record->checks[i].crc;
    }
    return seed;
}

/* From the card's end on, behind what any plan has there. */
static int open_store(poet *p, poet_feature_store *store)
{
    const int status = ready(p);
    if (status != POET_OK || p->card == NULL || !poet_has_pages(p->card)) {
        return status != POET_OK ? status : POET_E_ABSENT;
    }
    const poet_network *network = p->network;
    const poet_extraction *extraction = network->maker->extraction;
    const poet_plan *plans[] = {network->train, network->infer, network->stream, &extraction->plan, extraction->infer};
    uint32_t taken = 0;
    for (size_t i = 0; i < sizeof plans / sizeof *plans; i++) {
        const uint32_t more = plans[i] != NULL ? poet_runner_card_blocks(plans[i]->schedule) : 0u;
        taken = more > taken ? more : taken;
    }
    poet_feature_store_init(store, extraction, network->train, p->runner.ram, 0, 0, seed_of(p, extraction->plan.model));
    store->card = p->card;
    store->card_from = p->pager.page_area + taken;
    return POET_OK;
}

int poet_keep_features(poet *p, uint32_t sample, uint32_t number)
{
    poet_feature_store store;
    const int status = open_store(p, &store);
    return status != POET_OK ? status : poet_feature_store_keep(&store, sample, number);
}

int poet_kept_features(poet *p, uint32_t sample, uint32_t number)
{
    poet_feature_store store;
    const int status = open_store(p, &store);
    return status != POET_OK ? status : poet_feature_store_fill(&store, sample, number);
}

int poet_train_features(poet *p, float rate)
{
    int status = ready(p);
    if (status == POET_OK) {
        p->run.learning_rate = rate;
        status = poet_runner_step(&p->runner, &p->run);
        p->steps += status == POET_OK;
    }
    return status;
}

int poet_train_features_begin(poet *p, float rate)
{
    const int status = ready(p);
    if (status != POET_OK) {
        return status;
    }
    p->run.learning_rate = rate;
    return poet_runner_begin(&p->runner, &p->run);
}

int poet_infer_features(poet *p, const void *features)
{
    const int status = ready(p);
    const poet_plan *infer = status == POET_OK ? maker_of(p)->extraction->infer : NULL;
    if (infer == NULL) {
        return status == POET_OK ? POET_E_ABSENT : status;
    }
    const uint32_t own = poet_features_own(infer->model, p->network->train->model->resident_count);
    memcpy(p->runner.ram + infer->model->residents[own].offset, features, infer->model->residents[own].bytes);
    return run(p, infer);
}
