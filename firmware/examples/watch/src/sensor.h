// SPDX-License-Identifier: Apache-2.0
// The watch's sensor, played from flash: `python watch.py recordings --user N` writes what it plays.
#ifndef SENSOR_H
#define SENSOR_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SENSOR_AXES 6
#define SENSOR_UNIT (1.0f / 1024.0f)

typedef struct sensor_recording {
    const int16_t (*samples)[SENSOR_AXES]; // 25 a second
    uint32_t count;
    uint32_t exercise;
} sensor_recording;

// What the wearer shows to the watch, and says what it is; and what he does later.
extern const sensor_recording sensor_shown[];
extern const uint32_t sensor_shown_count;
extern const sensor_recording sensor_later[];
extern const uint32_t sensor_later_count;

#ifdef __cplusplus
}
#endif

#endif
