// SPDX-License-Identifier: Apache-2.0
// Somebody's own program: trains two networks, is reset in the middle, and goes on. What it did goes over the line.
#include <string.h>

#include <net.h>
#include <poet/board.h>
#include <poet/crc32.h>
#include <poet/poet.h>
#include <second.h>

#include "batches.h"

static poet_block_device card;
static poet trainer, other;
static uint32_t ram[(NET_RAM_BYTES + 3u) / 4u], other_ram[(SECOND_RAM_BYTES + 3u) / 4u];
static uint32_t between_calls;
static const uint32_t born = poet_board_ticks_hz; // by a constructor, before main

static void say(const char *word, uint32_t number)
{
    while (*word != '\0') {
        poet_board_putchar(*word++);
    }
    for (int shift = 32; shift > 0; shift -= 4) {
        poet_board_putchar("0123456789abcdef"[(number >> (shift - 4)) & 15u]);
    }
    poet_board_putchar('\n');
    poet_board_flush();
}

static bool between(void *, const poet_progress *progress)
{
    between_calls++;
    return progress->steps <= progress->step_count;
}

// Whatever the RAM held, a network begins the same.
static int begin(poet *p, const poet_network *network, uint32_t *memory, uint32_t bytes)
{
    static const poet_hooks hooks = {nullptr, 0, nullptr, between, nullptr};
    memset(memory, 0xC9, bytes);
    return poet_begin(p, network, memory, bytes, &card, &hooks);
}

static void take_batch(uint32_t step)
{
    for (uint32_t i = 0; i < NET_BATCH; i++) {
        memcpy(poet_input(&trainer, i), net_batches[step].input + i * NET_INPUT_BYTES, NET_INPUT_BYTES);
        memcpy(poet_target(&trainer, i), net_batches[step].target + i * NET_TARGET_BYTES, NET_TARGET_BYTES);
    }
}

static int train_in_pieces(uint32_t step)
{
    take_batch(step);
    int status = poet_train_begin(&trainer, RATE);
    while (status == POET_MORE) {
        if (poet_infer(&trainer) != POET_E_ORDER) { // it would compute where the step does
            return POET_E_ORDER;
        }
        status = poet_next(&trainer);
    }
    return status;
}

static int train(uint32_t step)
{
    take_batch(step);
    return poet_train(&trainer, RATE);
}

static void say_state(const char *word, poet *p, uint32_t parameter_bytes)
{
    uint32_t bits;
    const float loss = poet_loss(p);
    memcpy(&bits, &loss, sizeof bits);
    const uint8_t *first = static_cast<const uint8_t *>(poet_tensor(p, 0));
    say(word, poet_crc32(bits, first, parameter_bytes));
}

// The scores of the first sample of a batch, and the class that they say.
static int infer(uint32_t step)
{
    memcpy(poet_infer_input(&trainer), net_batches[step].input, NET_SAMPLE_BYTES);
    const int status = poet_infer(&trainer);
    if (status == POET_OK) {
        const float *scores = poet_output(&trainer);
        say("scores ", poet_crc32(0, scores, NET_OUTPUT_COUNT * sizeof *scores));
        say("class ", poet_argmax(scores, NET_OUTPUT_COUNT));
    }
    return status;
}

static int first_life()
{
    int status = train_in_pieces(0);
    say_state("first ", &trainer, NET_PARAMETER_BYTES);
    if (status == POET_OK) {
        status = train(1);
    }
    if (status == POET_OK) {
        status = poet_commit(&trainer);
    }
    if (status == POET_OK) {
        status = train(2); // is lost with the power
    }
    return status;
}

static int second_life()
{
    int status = train(2);
    if (status == POET_OK) {
        status = train_in_pieces(3);
    }
    if (status == POET_OK) {
        status = infer(0);
    }
    say_state("last ", &trainer, NET_PARAMETER_BYTES);
    if (status == POET_OK) {
        status = begin(&other, &second, other_ram, sizeof other_ram);
    }
    if (status == POET_OK) {
        memcpy(poet_input(&other, 0), second_batches[0].input, SECOND_INPUT_BYTES);
        memcpy(poet_target(&other, 0), second_batches[0].target, SECOND_TARGET_BYTES);
        status = poet_train(&other, RATE);
    }
    say_state("other ", &other, SECOND_PARAMETER_BYTES);
    say_state("still ", &trainer, NET_PARAMETER_BYTES);
    return status;
}

int main()
{
    poet_board_init();
    int status = poet_board_storage(&card);
    if (status == POET_OK) {
        status = begin(&trainer, &net, ram, sizeof ram);
    }
    if (status == POET_E_ABSENT) { // a card without poet's label
        status = poet_pager_format(&card);
        status = status == POET_OK ? begin(&trainer, &net, ram, sizeof ram) : status;
    }
    say("born ", born);
    if (status == POET_OK) {
        status = poet_restore(&trainer);
        status = status == POET_E_ABSENT ? first_life() : status == POET_OK ? second_life() : status;
    }
    say("steps ", poet_steps(&trainer));
    say("between ", between_calls);
    say("end ", static_cast<uint32_t>(status));
    for (;;) {
    }
}
