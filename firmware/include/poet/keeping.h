/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors on the card, in a program of one's own. A network's tables name it, so that a program whose networks
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
    void *(*sample)(const poet *p, uint8_t kind, uint32_t sample); /* NULL, as the next: the batch is in RAM */
    int (*give)(const poet *p);
} poet_keeping;

/* Of a poet_keeping in this order. */
int poet_keeping_open(const poet_keeping *keeping, poet *p, const poet_network *network);
int poet_keeping_restore(poet *p);
int poet_keeping_commit(poet *p);

/* Of a batch on the card: where a sample lies before a step, in RAM in which the step computes; and what takes all of
 * them from there to the card. */
void *poet_keeping_sample(const poet *p, uint8_t kind, uint32_t sample);
int poet_keeping_give(const poet *p);

#ifdef __cplusplus
}
#endif

#endif
