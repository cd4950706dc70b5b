/* SPDX-License-Identifier: Apache-2.0 */
#include "poet/keeping.h"

#include <stddef.h>

#include "poet/checkpoint.h"

/* Each step's batch, if they lie on the card, takes the place of the one before, however many it was prepared with. */
static int with_one_batch(poet_record *record, int status)
{
    return status == POET_OK && record->model->batch_blocks > 0 ? poet_record_set_batches(record, 1u) : status;
}

/* Brings what memory has lost back from its last commit. Without one there may be a record in it all the same. */
static int bring_back(poet_record *record, const poet_block_device *memory, uint32_t owner)
{
    uint32_t step;
    uint32_t bytes;
    const int loaded = poet_record_load(record, memory);
    const int status = poet_checkpoint_restore(memory, record->model, owner, record->residents, record, &step, &bytes);
    return status == POET_E_ABSENT ? loaded : status != POET_OK ? status : poet_record_take(record, step);
}

/* The record says where the frozen weights are, and has the weights of the last commit beside them. */
int poet_keeping_open(const poet_keeping *keeping, poet *p, const poet_network *network)
{
    const poet_model *model = network->train->model;
    const poet_tables *tables = network->tables;
    poet_record_init(keeping->record, model, p->runner.ram, tables->checks, tables->homes);
    poet_record *record = keeping->record;
    const int found =
        p->card->forgets ? bring_back(record, p->card, network->owner) : poet_record_load(record, p->card);
    const int status = with_one_batch(record, found);
    if (status == POET_E_ABSENT) {
        const int others = poet_record_check_others(p->card, model->graph_hash);
        return others != POET_OK ? others : status;
    }
    p->pager.page_area = poet_record_page_block(keeping->record);
    p->run.record = keeping->record;
    p->stale = poet_record_ends_steps(model);
    p->commits = p->stale || poet_record_may_be_needed(network->train->schedule);
    return status;
}

int poet_keeping_restore(poet *p)
{
    const bool of_commit = p->card->forgets && !p->stale;
    const int status = with_one_batch(p->run.record, of_commit ? bring_back(p->run.record, p->card, p->network->owner)
                                                               : poet_record_restore(p->run.record, p->card));
    p->steps = status == POET_OK ? p->run.record->step : p->steps;
    p->stale = status != POET_OK && (p->stale || (of_commit && poet_record_ends_steps(p->network->train->model)));
    return status;
}

static int commit(poet *p)
{
    const bool ends_steps = poet_record_ends_steps(p->network->train->model);
    if (p->stale || (ends_steps && p->run.record->step == p->run.record->committed)) {
        return p->stale ? POET_E_ORDER : POET_OK; /* the last step did */
    }
    const int status = poet_record_commit(p->run.record, ends_steps ? p->run.record->step : p->steps);
    if (status != POET_OK && status != POET_E_NOT_FINITE) {
        (void)poet_record_load(p->run.record, p->card); /* which one counts is not known */
        p->stale = p->stale || ends_steps;
    }
    return status;
}

int poet_keeping_commit(poet *p)
{
    uint32_t bytes;
    const int status = commit(p);
    return status != POET_OK || !p->card->forgets
               ? status
               : poet_checkpoint_commit(p->card, p->network->train->model, p->network->owner, p->runner.ram,
                                        p->run.record, p->run.record->step, &bytes);
}

static bool is_batch(const poet_kept *kept)
{
    return kept->kind == POET_RESIDENT_INPUT || kept->kind == POET_RESIDENT_TARGET;
}

void *poet_keeping_sample(const poet *p, uint8_t kind, uint32_t sample)
{
    const poet_model *model = p->network->train->model;
    uint8_t *place = p->runner.ram + model->resident_bytes;
    for (uint32_t i = 0; i < model->kept_count; i++) {
        const poet_kept *kept = &model->kept[i];
        if (kept->kind == kind) {
            return place + sample * (kept->bytes / p->network->batch);
        }
        place += is_batch(kept) ? kept->bytes : 0u;
    }
    return NULL;
}

int poet_keeping_give(const poet *p)
{
    const poet_model *model = p->network->train->model;
    const uint8_t *place = p->runner.ram + model->resident_bytes;
    int status = POET_OK;
    for (uint32_t i = 0; status == POET_OK && i < model->kept_count; i++) {
        const poet_kept *kept = &model->kept[i];
        if (is_batch(kept)) {
            status = poet_record_put(p->run.record, kept, 0, place, kept->bytes);
            place += kept->bytes;
        }
    }
    return status;
}
