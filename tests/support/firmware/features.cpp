// SPDX-License-Identifier: Apache-2.0
// Somebody's own program, which keeps features: it trains the same network whole, as programs do that know of none,
// and on what it keeps. What came of each goes over the line.
#include <string.h>

#include <head.h>
#include <poet/board.h>
#include <poet/crc32.h>
#include <poet/poet.h>
#include <whole.h>

#include "samples.h" // COUNT, EPOCHS, RATE, and the samples

static_assert(HEAD_BATCH == WHOLE_BATCH && COUNT % HEAD_BATCH == 0, "the same steps");
static constexpr uint32_t words = (HEAD_RAM_BYTES > WHOLE_RAM_BYTES ? HEAD_RAM_BYTES + 3u : WHOLE_RAM_BYTES + 3u) / 4u;
static poet trainer;
static uint32_t ram[words]; // of one after the other
static uint8_t kept[COUNT][HEAD_FEATURE_BYTES];
static uint32_t drawn = 1;

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

static uint32_t draw()
{
    drawn = drawn * 1664525u + 1013904223u;
    return (drawn >> 8) % COUNT;
}

static void put(uint32_t place, uint32_t number)
{
    memcpy(poet_input(&trainer, place), samples[number].input, WHOLE_INPUT_BYTES);
    memcpy(poet_target(&trainer, place), samples[number].target, WHOLE_TARGET_BYTES);
}

static int begin(const poet_network *network)
{
    drawn = 1;
    memset(ram, 0xC9, sizeof ram);
    return poet_begin(&trainer, network, ram, sizeof ram, nullptr, nullptr);
}

static uint32_t weights()
{
    const poet_model *model = trainer.network->train->model;
    uint32_t crc = 0;
    for (uint16_t i = 0; i < model->resident_count; i++) {
        const uint8_t kind = model->residents[i].kind;
        if (kind == POET_RESIDENT_PARAMETER || kind == POET_RESIDENT_STATE) {
            crc = poet_crc32(crc, poet_tensor(&trainer, i), model->residents[i].bytes);
        }
    }
    return crc;
}

// A program of before there were features; the ticks of its last step are said.
static int by_samples(const poet_network *network, uint32_t steps, const char *took)
{
    int status = begin(network);
    uint32_t start = 0;
    for (uint32_t step = 0; status == POET_OK && step < steps; step++) {
        for (uint32_t place = 0; place < HEAD_BATCH; place++) {
            put(place, draw());
        }
        start = poet_board_ticks();
        status = poet_train(&trainer, RATE);
    }
    say(took, poet_board_ticks() - start);
    return status;
}

static int keep()
{
    int status = POET_OK;
    for (uint32_t first = 0; status == POET_OK && first < COUNT; first += HEAD_BATCH) {
        for (uint32_t place = 0; place < HEAD_BATCH; place++) {
            put(place, first + place);
        }
        status = poet_extract(&trainer);
        for (uint32_t place = 0; place < HEAD_BATCH; place++) {
            memcpy(kept[first + place], poet_features(&trainer, place), HEAD_FEATURE_BYTES);
        }
    }
    return status;
}

static int by_features(uint32_t steps)
{
    int status = begin(&head);
    status = status == POET_OK ? keep() : status;
    uint32_t start = 0;
    for (uint32_t step = 0; status == POET_OK && step < steps; step++) {
        for (uint32_t place = 0; place < HEAD_BATCH; place++) {
            const uint32_t number = draw();
            memcpy(poet_features(&trainer, place), kept[number], HEAD_FEATURE_BYTES);
            memcpy(poet_target(&trainer, place), samples[number].target, WHOLE_TARGET_BYTES);
        }
        start = poet_board_ticks();
        status = poet_train_features(&trainer, RATE);
    }
    say("short ", poet_board_ticks() - start);
    return status;
}

// How often the class of a sample is that of its features, and how often it is the label.
static int recognise()
{
    uint32_t same = 0, right = 0;
    int status = POET_OK;
    for (uint32_t number = 0; status == POET_OK && number < COUNT; number++) {
        memcpy(poet_infer_input(&trainer), samples[number].input, HEAD_SAMPLE_BYTES);
        status = poet_infer(&trainer);
        const uint32_t found = poet_argmax(poet_output(&trainer), HEAD_OUTPUT_COUNT);
        status = status == POET_OK ? poet_infer_features(&trainer, kept[number]) : status;
        const uint32_t again = poet_argmax(poet_output(&trainer), HEAD_OUTPUT_COUNT);
        same += found == again;
        right += again == samples[number].target[0];
    }
    say("same ", same);
    say("right ", right);
    return status;
}

int main()
{
    poet_board_init();
    int status = by_samples(&whole, EPOCHS * COUNT / HEAD_BATCH, "long ");
    say("whole ", weights());
    status = status == POET_OK ? by_features(EPOCHS * COUNT / HEAD_BATCH) : status;
    say("head ", weights());
    status = status == POET_OK ? recognise() : status;
    status = status == POET_OK ? by_samples(&whole, 1, "first ") : status;
    say("once ", weights());
    status = status == POET_OK ? by_samples(&head, 1, "made ") : status;
    say("unchanged ", weights());
    say("end ", static_cast<uint32_t>(status));
    for (;;) {
    }
}
