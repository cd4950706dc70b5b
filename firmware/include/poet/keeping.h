/* SPDX-License-Identifier: Apache-2.0 */
/* Frozen weights on the card, in a program of one's own. A network's tables name it, so that a program whose networks
 * have none there links none of it. */
#ifndef POET_KEEPING_H
#define POET_KEEPING_H

#include "poet/poet.h"
#include "poet/record.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct poet_keeping {
    poet_record *record; /* in static RAM, as the network's tables */
    int (*open)(const struct poet_keeping *keeping, poet *p, const poet_network *network);
    int (*restore)(poet *p);
    int (*commit)(poet *p);
} poet_keeping;

/* Of a poet_keeping in this order. */
int poet_keeping_open(const poet_keeping *keeping, poet *p, const poet_network *network);
int poet_keeping_restore(poet *p);
int poet_keeping_commit(poet *p);

#ifdef __cplusplus
}
#endif

#endif
