/* SPDX-License-Identifier: Apache-2.0 */
#include "card.h"

#include "poet/checkpoint.h"
#include "poet/keeping.h"
#include "poet/record.h"

const uint8_t poet_card_kernels = 1;

__attribute__((cold)) int poet_open_card(poet *p, const poet_network *network, const poet_block_device *card)
{
    p->card = card;
    p->run.pager = &p->pager;
    int status = POET_OK;
    if (card->lasting != NULL) {
        status = poet_pager_open(&p->pager, card->lasting);
        status = status != POET_OK ? status : poet_record_check_others(card->lasting, 0);
    }
    status = status != POET_OK ? status : poet_pager_open(&p->pager, card);
    if (status != POET_OK) {
        return status;
    }
    return network->keeping == NULL ? poet_record_check_others(card, 0)
                                    : network->keeping->open(network->keeping, p, network);
}

int poet_restore(poet *p)
{
    uint32_t bytes;
    if (!poet_is_idle(p)) {
        return POET_E_ORDER;
    }
    poet_runner_forget_sums(&p->runner);
    p->heard = 0;
    if (p->network->keeping != NULL) {
        const bool stale = p->stale;
        p->stale = false; /* not what the last step began with, but what a commit has */
        const int status = p->network->keeping->restore(p);
        p->stale = status != POET_OK && (stale || p->stale);
        return status;
    }
    return p->card == NULL ? POET_E_ABSENT
                           : poet_checkpoint_restore(p->card, p->network->train->model, p->network->owner,
                                                     p->runner.ram, NULL, &p->steps, &bytes);
}

int poet_commit(poet *p)
{
    uint32_t bytes;
    if (!poet_is_idle(p)) {
        return POET_E_ORDER;
    }
    if (p->network->keeping != NULL) {
        return p->network->keeping->commit(p);
    }
    return p->card == NULL ? POET_E_ABSENT
                           : poet_checkpoint_commit(p->card, p->network->train->model, p->network->owner, p->runner.ram,
                                                    NULL, p->steps, &bytes);
}
