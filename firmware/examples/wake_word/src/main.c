/* SPDX-License-Identifier: Apache-2.0 */
/* A device that learns a wake word of its wearers' own, and then listens for it. No host takes part. It trains on
 * windows of sound, with the word and without; then it is given what is new of a stream, three frames each 30 ms, as
 * TFLite Micro's front end would make them of a microphone's samples; here they are played from flash. */
#include <poet/board.h>
#include <poet/crc32.h>
#include <poet/poet.h>
#include <string.h>
#include <wake_net.h>

#define BINS 40u
#define UNIT (10.0f / 256.0f)
#define FRAMES (WAKE_NET_SAMPLE_BYTES / sizeof(float) / BINS)
#define NEW (WAKE_NET_STREAM_BYTES / sizeof(float) / BINS)
#define FRAME_MS 10u
/* A device has heard one word, and not two, until that many calls are over. */
#define DEAF_CALLS 33u

#ifndef EPOCHS
#define EPOCHS 4u
#endif
#define RATE 0.01f
/* As `poet-harness eval --false-accepts` says. */
#ifndef THRESHOLD
#define THRESHOLD 2.25f
#endif

extern const float there[];                                            /* 1: the window has the word */
extern const int16_t shown[][BINS][FRAMES], shown_end[][BINS][FRAMES]; /* windows */
extern const int16_t heard[][BINS], heard_end[][BINS];                 /* frames */

static poet learner;
static uint32_t ram[(WAKE_NET_RAM_BYTES + 3u) / 4u];

static void say(const char *words, uint32_t number)
{
    for (; *words != '\0'; words++) {
        poet_board_putchar(*words);
    }
    uint32_t unit = 1;
    for (; number / unit > 9u; unit *= 10u) {
    }
    for (; unit > 0u; unit /= 10u) {
        poet_board_putchar((char)('0' + number / unit % 10u));
    }
    poet_board_putchar('\n');
    poet_board_flush();
}

/* One batch after the other; what is left of the last one is left out. */
static int learn(void)
{
    const uint32_t windows = (uint32_t)(shown_end - shown), batches = windows / WAKE_NET_BATCH;
    int status = POET_OK;
    for (uint32_t step = 0; status == POET_OK && step < EPOCHS * batches; step++) {
        for (uint32_t i = 0; i < WAKE_NET_BATCH; i++) {
            const uint32_t number = step % batches * WAKE_NET_BATCH + i;
            float *into = poet_input(&learner, i);
            for (uint32_t k = 0; k < BINS * FRAMES; k++) {
                into[k] = (float)shown[number][k / FRAMES][k % FRAMES] * UNIT;
            }
            memcpy(poet_target(&learner, i), &there[number], WAKE_NET_TARGET_BYTES);
        }
        status = poet_train(&learner, RATE);
    }
    return status;
}

/* Tells when it hears the word. An answer is the window's that ends there, for a thirteenth of its work. */
static int listen(void)
{
    const uint32_t calls = (uint32_t)((heard_end - heard) / (long)NEW);
    int status = POET_OK;
    uint32_t deaf = 0;
    for (uint32_t call = 0; status >= POET_OK && call < calls; call++) {
        float *into = poet_stream_input(&learner);
        for (uint32_t k = 0; k < BINS * NEW; k++) {
            into[k] = (float)heard[call * NEW + k % NEW][k / NEW] * UNIT;
        }
        status = poet_stream(&learner); /* POET_MORE: it has not heard a window yet */
        deaf -= deaf > 0u;
        if (status == POET_OK && deaf == 0u && poet_stream_output(&learner)[0] > THRESHOLD) {
            say("heard at ms ", (call + 1u) * NEW * FRAME_MS);
            deaf = DEAF_CALLS;
        }
    }
    return status;
}

/* By it a computer sees that it has the same weights, to the last bit. */
static uint32_t weights_crc(void)
{
    const poet_model *model = wake_net.train->model;
    uint32_t crc = 0;
    for (uint16_t i = 0; i < model->resident_count; i++) {
        if (model->residents[i].kind == POET_RESIDENT_PARAMETER) {
            crc = poet_crc32(crc, poet_tensor(&learner, i), model->residents[i].bytes);
        }
    }
    return crc;
}

int main(void)
{
    poet_board_init();
    int status = poet_begin(&learner, &wake_net, ram, sizeof ram, NULL, NULL);
    if (status == POET_OK) {
        status = learn();
        say("steps ", poet_steps(&learner));
        say("weights ", weights_crc());
        status = status == POET_OK ? listen() : status;
    }
    say("end ", (uint32_t)-status);
    for (;;) {
    }
}
