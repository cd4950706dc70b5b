/* SPDX-License-Identifier: Apache-2.0 */
/* A data set on the card (docs/SPEC.md, section 7): samples as small as they are kept, each with a check of its own.
 *
 *     poet_sample_set set;
 *     poet_sample_set_open(&set, &card, block, &model);        // POET_E_ABSENT: no set for this model begins there
 *     poet_sample_set_read(&set, &model, 17, residents, 0);    // sample 17 becomes the first one of the batch
 */
#ifndef POET_SAMPLE_SET_H
#define POET_SAMPLE_SET_H

#include <stdint.h>

#include "poet/block_device.h"
#include "poet/model.h"
#include "poet/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct poet_sample_set {
    const poet_block_device *device;
    uint32_t block; /* of its header; the samples lie after it */
    uint32_t count;
    uint32_t sample_blocks;
    uint32_t check; /* of all samples, by which a host knows the set */
    uint32_t batch; /* samples in a batch of the model */
    uint32_t header[POET_BLOCK_BYTES / 4u];
} poet_sample_set;

/* Reads the header of the set that begins at a block. POET_E_ABSENT if there is none whose samples fit the model's
 * batch, POET_E_UNSUPPORTED if the model has no batch in RAM. */
int poet_sample_set_open(poet_sample_set *set, const poet_block_device *device, uint32_t block,
                         const poet_model *model);

/* Writes a sample, normalised, to its place in each of the batch's tensors. POET_E_ARGUMENT for a number or a place
 * that there is not; POET_E_CORRUPT if the card does not give it back as it was written: the batch is then damaged. */
int poet_sample_set_read(const poet_sample_set *set, const poet_model *model, uint32_t number, uint8_t *residents,
                         uint32_t place);

#ifdef __cplusplus
}
#endif

#endif
