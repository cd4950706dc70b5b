/* SPDX-License-Identifier: Apache-2.0 */
/* Training inside your own program, without protocol and host (docs/own_application.md).
 *
 * `poet-plan ... --library watch` writes a network as a library: watch.h declares `watch`, WATCH_RAM_BYTES and the
 * numbers of its tensors. The program owns all memory.
 *
 *     static poet trainer;
 *     static uint64_t ram[(WATCH_RAM_BYTES + 7) / 8];
 *
 *     int status = poet_begin(&trainer, &watch, ram, sizeof ram, &card, NULL);
 *     if (status == POET_OK && poet_restore(&trainer) == POET_E_ABSENT)
 *         ...                                          // nothing committed yet: the initial weights stand
 *     for (uint32_t i = 0; i < WATCH_BATCH; i++) {
 *         memcpy(poet_input(&trainer, i), ..., WATCH_INPUT_BYTES);
 *         memcpy(poet_target(&trainer, i), ..., WATCH_TARGET_BYTES);
 *     }
 *     status = poet_train(&trainer, 0.01f);
 *     status = poet_commit(&trainer);
 *     memcpy(poet_infer_input(&trainer), ..., WATCH_SAMPLE_BYTES);
 *     status = poet_infer(&trainer);
 *     class = poet_argmax(poet_output(&trainer), WATCH_OUTPUT_COUNT);
 *
 * All functions return POET_OK, a negative poet_status, or POET_MORE, POET_STOPPED or POET_GATHERED where they say so.
 */
#ifndef POET_POET_H
#define POET_POET_H

#include <stdint.h>

#include "poet/block_device.h"
#include "poet/block_window.h"
#include "poet/hooks.h"
#include "poet/model.h"
#include "poet/pager.h"
#include "poet/plan.h"
#include "poet/runner.h"
#include "poet/schedule.h"
#include "poet/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A network as `poet-plan --library` writes it: constant, in flash. */
typedef struct poet_network {
    const poet_plan *train;
    const poet_plan *infer;    /* one sample in evaluation mode; NULL for none */
    const poet_tables *tables; /* in static RAM: one `poet` a network at a time */
    const void *initial;       /* parameters and states, one after the other in the model's order; NULL: zeros */
    uint32_t initial_bytes;    /* what lies after them is zeros */
    uint32_t initial_crc;      /* CRC-32 */
    uint32_t batch;            /* samples in RAM at once: those of a call of poet_train */
    uint32_t ram_bytes;
    uint32_t owner;                         /* of its commits: CRC-32 of its name; 0: whichever network has its graph */
    const struct poet_keeping *keeping;     /* of frozen weights on the card; NULL: there are none */
    const struct poet_feature_maker *maker; /* of what the step reads of a sample; NULL: it does all */
    const poet_plan *stream;                /* the newest columns of a stream; NULL for none */
    uint32_t stream_calls;                  /* after so many it has heard a window */
} poet_network;

/* A network in its RAM. Its members are poet's. */
typedef struct poet {
    const poet_network *network; /* NULL: not begun */
    const poet_block_device *card;
    poet_hooks hooks;
    poet_pager pager;
    poet_runner runner;
    poet_run run;
    uint32_t steps;
    uint32_t making; /* samples whose features the step under way makes, up to those of now; 0: none */
    uint32_t heard;  /* calls of poet_stream since its histories were last lost, up to those of a window */
    bool commits;    /* what an error leaves in RAM does not count: the record's tensors do */
    bool stale; /* tensors in RAM are not those of the record, as which a step with parameters on the card begins */
} poet;

/* Checks the network, and sets every tensor: weights and states as trained on the host, all else to zeros. What was in
 * the RAM before is not trusted. `ram` is aligned to 4. `card` may be NULL where the plan does not page; nothing can be
 * committed then. `hooks` may be NULL. Network, RAM and card have to outlive `p`; `hooks` are copied.
 *
 * POET_E_MEMORY: the RAM is too small. POET_E_ABSENT: a card is needed, or it has no label yet (poet_pager_format gives
 * it one, and may overwrite what is on it), or not the network's frozen weights (poet-harness card puts them there).
 * POET_E_TAKEN: it holds tensors of another model. POET_E_CORRUPT, POET_E_HASH: the network is damaged.
 * POET_E_UNSUPPORTED: it keeps trained parameters on the card, which only poet's own firmware trains, or lacks an
 * operator; or there is a card, but the plan has nothing on it, and the program neither commits nor restores.
 * POET_E_ARITHMETIC: the compiler's flags, or how the caller's thread has set the floating-point unit, would change the
 * bits (docs/own_application.md). */
int poet_begin(poet *p, const poet_network *network, void *ram, uint32_t ram_bytes, const poet_block_device *card,
               const poet_hooks *hooks);

/* Reads the last commit's weights and states. POET_E_ABSENT: nothing was committed yet. POET_E_TAKEN: the card holds
 * another network's commits. Nothing has changed then. Micro-batches that were gathered are forgotten. */
int poet_restore(poet *p);

/* Writes weights and states to the card, so that they outlive a power cut at any moment. POET_E_TAKEN: the card holds
 * another network's commits, and nothing was written: give each network a part of the card (poet_block_window_open), or
 * take the place on purpose, which ends them (poet_pager_format). POET_E_NOT_FINITE: a weight is infinite or no
 * number, and nothing was written. */
int poet_commit(poet *p);

/* Where a sample of the next call of poet_train belongs; NULL for one that there is not, or in a network without. To be
 * left alone while a training step is under way. Where the plan has its batch on the card, whatever else is called
 * before poet_train overwrites it: put all samples just before. */
void *poet_input(poet *p, uint32_t sample);
void *poet_target(poet *p, uint32_t sample);

/* One training step on the batch, or on one of its micro-batches (WATCH_MICRO_BATCHES): all calls but the last of a
 * batch add up gradients, change no weight, and give POET_GATHERED; the rate of the last one counts. Calls
 * `hooks->between` between two steps of the schedule; where that says false it ends as poet_stop does. POET_E_ARGUMENT:
 * the rate is negative, infinite or NaN. POET_E_NOT_FINITE: the loss is infinite or no number; the rate is too high, or
 * a sample is damaged. After that, as after an error of the card, weights and states are as before the step, and its
 * batch begins anew. */
int poet_train(poet *p, float rate);

/* The same piece by piece. Each poet_next does one step of the schedule: POET_MORE until the last one gives POET_OK, or
 * POET_GATHERED.
 * Between two calls a transfer may be under way on the card's bus, which nobody else may use then: poet_settle waits
 * for its end. */
int poet_train_begin(poet *p, float rate);
int poet_next(poet *p);
int poet_settle(poet *p);

/* Gives the step under way up: POET_STOPPED, and no weight has changed. If one has, the step is completed: POET_OK.
 * Between two micro-batches it forgets those that were gathered. */
int poet_stop(poet *p);

/* One sample in evaluation mode, with the weights as they are. Input and output lie where a training step computes: a
 * step destroys both. So write the input after a step, and read the output before the next one. In a plan whose
 * inference shares the batch's input, write the batch after it. Where one lies in the gradients' place, there is none,
 * and its input is NULL, while a batch is gathered.
 *
 * POET_E_ORDER: a training step is under way. POET_E_ABSENT: the network has no inference. Where `between` says false
 * the inference is given up: POET_STOPPED. */
int poet_infer(poet *p);

/* Where its sample belongs, and where its scores are; NULL in a network without, and while a step is under way. */
void *poet_infer_input(poet *p);
const float *poet_output(const poet *p);

/* The same of a stream, in a network that `poet-plan --stream` has planned: it is given WATCH_STREAM_BYTES of the
 * newest columns, laid out as in the window, and remembers the others, so that a call costs a small part of poet_infer.
 * POET_MORE until it has heard a whole window (WATCH_STREAM_CALLS); after that its output is that of poet_infer on the
 * window which ends with these columns. What it remembers lies where others compute, and is made by the weights of
 * then: after any other call that trains, infers, extracts or restores, and after an error, it begins anew. */
int poet_stream(poet *p);
void *poet_stream_input(poet *p);
const float *poet_stream_output(const poet *p);

/* The place of the highest score, of equal ones the first. */
uint32_t poet_argmax(const float *scores, uint32_t count);

/* Of a network whose frozen part makes features, NULL and POET_E_ABSENT of another: what poet_train computes of each
 * sample anew is the same every time, so a program may keep it, WATCH_FEATURE_BYTES a sample.
 *
 *     status = poet_extract(&trainer);                  // of the samples of poet_input
 *     memcpy(kept[number], poet_features(&trainer, i), WATCH_FEATURE_BYTES);
 *     memcpy(poet_features(&trainer, i), kept[other], WATCH_FEATURE_BYTES);   // and the target
 *     status = poet_train_features(&trainer, 0.01f);    // the step on these: the rest of poet_train
 *     status = poet_infer_features(&trainer, kept[other]);
 *
 * No call changes samples or features but poet_extract and poet_train, which makes them first. */
int poet_extract(poet *p);
void *poet_features(poet *p, uint32_t sample);
int poet_train_features(poet *p, float rate);
int poet_train_features_begin(poet *p, float rate);
int poet_infer_features(poet *p, const void *features);

/* Keeps what poet_train_features reads of a sample of the batch, its target, too, under a number, on the card, from its
 * end on; and the other way. They outlive a reset, as long as the frozen part is the same. POET_E_ARGUMENT: no such
 * sample, or the card has no room for so many numbers. POET_E_ABSENT: none is kept under this number, which leaves the
 * sample undefined; or there is no card. */
int poet_keep_features(poet *p, uint32_t sample, uint32_t number);
int poet_kept_features(poet *p, uint32_t sample, uint32_t number);

/* Training steps completed, whole batches, with those before the commit that was restored. */
uint32_t poet_steps(const poet *p);

/* Micro-batches of the batch under way whose gradients are in the sums. */
uint32_t poet_gathered(const poet *p);

/* Of the last training step; with micro-batches gathered, their sum so far. */
float poet_loss(const poet *p);

/* A tensor by its number in the network's header; NULL for none, and for an inference's while a step is under way. */
void *poet_tensor(poet *p, uint16_t resident);

#ifdef __cplusplus
}
#endif

#endif
