/* SPDX-License-Identifier: Apache-2.0 */
/* Features in a program of one's own. A network's tables name this, so that a program whose networks have none links
 * none of it. */
#ifndef POET_FEATURE_MAKER_H
#define POET_FEATURE_MAKER_H

#include <stdbool.h>

#include "poet/plan.h"
#include "poet/poet.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct poet_feature_maker {
    const poet_extraction *extraction;
    int (*check)(const poet_network *network, uint32_t ram_bytes, bool card);
    int (*make)(poet *p);
    int (*begin)(poet *p);
    int (*go_on)(poet *p, int status); /* after a run of the runner while features are made */
} poet_feature_maker;

/* Of a poet_feature_maker in this order. */
int poet_feature_maker_check(const poet_network *network, uint32_t ram_bytes, bool card);
int poet_feature_maker_make(poet *p);
int poet_feature_maker_begin(poet *p);
int poet_feature_maker_go_on(poet *p, int status);

#ifdef __cplusplus
}
#endif

#endif
