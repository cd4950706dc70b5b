// SPDX-License-Identifier: Apache-2.0
// The smallest sketch: it is shown each of three gestures five times, trains on them, and names those that follow.
// Its network is the library gesture, which firmware/examples/gesture/gesture.py of poet says how to make.
#include <poet.h>
#include <gesture.h>

static poet learner;
static uint32_t ram[(GESTURE_RAM_BYTES + 3u) / 4u];
static float shown[GESTURE_BATCH][GESTURE_INPUT_BYTES / sizeof(float)], seen[GESTURE_SAMPLE_BYTES / sizeof(float)];
static int32_t gestures[GESTURE_BATCH];

// Put the reading of your sensor in its place: ten samples of six axes.
static void sense(float *samples)
{
    for (uint32_t i = 0; i < GESTURE_SAMPLE_BYTES / sizeof(float); i++) {
        samples[i] = static_cast<float>(analogRead(i % 6u)) / 1024.0f;
    }
}

void setup()
{
    Serial.begin(115200);
    for (uint32_t i = 0; i < GESTURE_BATCH; i++) {
        gestures[i] = static_cast<int32_t>(i % GESTURE_CLASS_COUNT);
        Serial.println(gesture_classes[gestures[i]]);
        delay(1000);
        sense(shown[i]);
    }
    int status = poet_begin(&learner, &gesture, ram, sizeof ram, nullptr, nullptr);
    for (int step = 0; step < 1000 && status == POET_OK; step++) {
        memcpy(poet_input(&learner, 0), shown, sizeof shown);
        memcpy(poet_target(&learner, 0), gestures, sizeof gestures);
        status = poet_train(&learner, 0.01f);
    }
}

void loop()
{
    sense(seen);
    memcpy(poet_infer_input(&learner), seen, sizeof seen);
    if (poet_infer(&learner) == POET_OK) {
        Serial.println(gesture_classes[poet_argmax(poet_output(&learner), GESTURE_CLASS_COUNT)]);
    }
    delay(1000);
}
