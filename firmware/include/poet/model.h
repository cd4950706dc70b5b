/* SPDX-License-Identifier: Apache-2.0 */
/* The built model: what generated poet_model.h fills in, and poet_schedule.h refers to. Byte for byte in docs/SPEC.md.
 *
 * A *resident* tensor (trained parameter, gradient, batch input, loss) has one fixed place in RAM for good. A *kept*
 * tensor lives on the card from step to step. Where activations lie, and when, the schedule says.
 */
#ifndef POET_MODEL_H
#define POET_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "poet's tables, cards and commits are little-endian, and nothing converts them: compile it for such a core"
#endif

#if defined(__ARM_PCS_VFP) && !defined(__ARM_FP)
#error \
    "floats are passed in registers of a unit that the compiler was not told of: name it (-mfpu=fpv4-sp-d16; zig cc" \
    " -mcpu=cortex_m4+vfp4d16sp), or pass them elsewhere (-mfloat-abi=soft; zig cc -target thumb-freestanding-eabi)"
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef enum poet_resident_kind { /* a kept tensor is a parameter, a state, an input, a target or a constant */
                                  POET_RESIDENT_PARAMETER = 1,
                                  POET_RESIDENT_GRADIENT = 2,
                                  POET_RESIDENT_STATE = 3, /* the optimiser's or a normalisation's, carried from step to
                                                              step like a parameter */
                                  POET_RESIDENT_INPUT = 4,
                                  POET_RESIDENT_TARGET = 5,
                                  POET_RESIDENT_LOSS = 6,
                                  POET_RESIDENT_CONSTANT = 7,
                                  POET_RESIDENT_OUTPUT = 8,  /* an inference's */
                                  POET_RESIDENT_FEATURE = 9, /* made of the batch beside the step that reads it */
                                  POET_RESIDENT_HISTORY = 10 /* what a stream remembers from call to call */
} poet_resident_kind;

typedef struct poet_resident {
    uint32_t offset; /* from the start of the resident region, a multiple of 4 */
    uint32_t bytes;
    uint8_t kind; /* poet_resident_kind */
} poet_resident;

/* A tensor that a step reads from the card, and changes only there. Where a node writes its next version it is a
 * *unit*: it has two homes on the card, of which one counts. All others have one home (docs/SPEC.md, section 7).
 * A tensor may lie by rows: each row begins a block, and each row of a unit has two homes of its own. */
typedef struct poet_kept {
    uint32_t bytes;
    uint32_t block; /* first block of its first or only home, or in batch 0, counted from POET_CARD_DATA_BLOCK */
    uint32_t rows;  /* of equal bytes; 1: it lies as a whole */
    uint32_t bit;   /* of a unit: which bit of the record says where its first row counts; the others follow */
    uint16_t check; /* place of its check in the record, below unit_count for a unit; POET_NO_CHECK: a batch's */
    uint8_t kind;   /* poet_resident_kind */
} poet_kept;

#define POET_NO_CHECK 0xffffu

typedef struct poet_model {
    uint64_t graph_hash;
    uint32_t resident_bytes;
    uint16_t resident_count;
    uint16_t micro_batches; /* runs of the schedule that make a training step: they share a batch, and add up its
                               gradients and its loss in the residents of these kinds. 1: it is done in one */
    const poet_resident *residents;
    uint32_t constant_bytes; /* of `constant_words` */
    uint32_t constant_crc;   /* CRC-32 of `constant_words`: headers of two plans, or a damaged flash, are refused */
    const uint32_t *constant_words;
    uint16_t kept_count;
    uint16_t unit_count; /* kept tensors that a step changes, and one more: all residents that outlive a step, if any */
    uint16_t check_count; /* in the record: of units, and of kept tensors with one home that are of no batch */
    uint16_t commit_each; /* so many steps make the next versions count, 2 at least; 0: each does */
    uint32_t
        bit_count; /* in the record: one for each unit, or one for each of its rows; twice as many of three homes */
    uint32_t home_blocks;  /* of the first homes of all units: the others lie after them */
    uint32_t batch_block;  /* where batch 0 begins, counted as poet_kept.block */
    uint32_t batch_blocks; /* what one batch takes */
    const poet_kept *kept;
} poet_model;

/* Whether an inference's output, the last of its tensors, lies where the training has gradients: it then destroys what
 * the parts of a batch have added up. */
static inline bool poet_is_in_gradients(const poet_model *inference, const poet_model *training)
{
    return inference->residents[inference->resident_count - 1].offset < training->resident_bytes;
}

#ifdef __cplusplus
}
#endif

#endif
