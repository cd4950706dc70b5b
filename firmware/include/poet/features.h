/* SPDX-License-Identifier: Apache-2.0 */
/* What a head's step reads of its batch in place of what it was made of: features, made by a plan beside it, and kept
 * in RAM that no plan takes, and beyond that on a card, from its end on. A record is what the step reads of one sample,
 * with a CRC-32, so that one which was written over, or was there before a reset, is not taken for a sample's. */
#ifndef POET_FEATURES_H
#define POET_FEATURES_H

#include <stdint.h>

#include "poet/block_device.h"
#include "poet/plan.h"
#include "poet/runner.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct poet_feature_store {
    poet_plan head;
    uint8_t *ram; /* of the residents */
    uint8_t *records;
    uint32_t record_bytes;
    uint32_t room; /* in RAM for so many records, of the samples with numbers below it */
    uint32_t samples;
    uint32_t seed;
    uint32_t card_blocks; /* of a record there: each row begins at a block, and so does the CRC */
    const poet_block_device
        *card; /* caller-owned, NULL: none, as at first; records leave the blocks before `card_from` */
    uint32_t card_from;
} poet_feature_store;

/* As poet_runner_check_inference, for both plans; and that batches can be cut into samples. */
int poet_features_check(const poet_extraction *extraction, const poet_model *head, uint32_t ram_bytes);

/* Exchanges the samples from `first` on, inputs and features, with those of the first places, where features are made.
 * Once before they are, and once after. */
void poet_features_exchange(const poet_extraction *extraction, const poet_model *head, uint8_t *ram, uint32_t first);

/* Takes the RAM from `taken` bytes on. The seed differs from start to start. */
void poet_feature_store_init(poet_feature_store *store, const poet_extraction *extraction, const poet_plan *head,
                             uint8_t *ram, uint32_t taken, uint32_t ram_bytes, uint32_t seed);

/* Keeps what the step reads of the sample at a place of the batch; POET_E_ARGUMENT for another place or number. */
int poet_feature_store_keep(const poet_feature_store *store, uint32_t sample, uint32_t number);

/* The other way; POET_E_ABSENT if no such sample is kept: the sample's place is then undefined. */
int poet_feature_store_fill(const poet_feature_store *store, uint32_t sample, uint32_t number);

/* The features of a sample that is kept, to where an inference has them. */
int poet_feature_store_give(const poet_feature_store *store, const poet_model *infer, uint32_t number);

/* An inference's own place for those of one sample: of the first resident from `from` on, resident_count for none. */
uint32_t poet_features_own(const poet_model *infer, uint32_t from);

#ifdef __cplusplus
}
#endif

#endif
