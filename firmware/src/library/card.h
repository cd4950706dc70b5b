/* SPDX-License-Identifier: Apache-2.0 */
/* What a program does with a card. One that neither commits nor restores, and whose plans have nothing there, links
 * none of it. */
#ifndef POET_LIBRARY_CARD_H
#define POET_LIBRARY_CARD_H

#include <stdbool.h>
#include <stddef.h>

#include "poet/operator.h"
#include "poet/poet.h"

POET_OPTIONAL int poet_open_card(poet *p, const poet_network *network, const poet_block_device *card);

/* Whether a plan, which may be NULL, has anything there. */
static inline bool poet_needs_card(const poet_plan *plan)
{
    return plan != NULL && (plan->model->kept_count > 0 || plan->schedule->page_count > 0);
}

/* Between two steps and two inferences. */
static inline bool poet_is_idle(const poet *p)
{
    return p->network != NULL && !p->run.under_way;
}

#endif
