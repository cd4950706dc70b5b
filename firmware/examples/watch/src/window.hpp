// SPDX-License-Identifier: Apache-2.0
// The sensor's last samples, as the network reads them: a row an axis.
#ifndef WINDOW_HPP
#define WINDOW_HPP

#include <stdint.h>
#include <string.h>

#include "sensor.h"

struct Window {
    static constexpr uint32_t length = 64, hop = 16;

    int16_t rows[SENSOR_AXES][length];
    uint32_t received;

    // True where a window is complete: after 64 samples, and from then on every 16.
    bool take(const int16_t sample[SENSOR_AXES])
    {
        for (uint32_t axis = 0; axis < SENSOR_AXES; axis++) {
            memmove(&rows[axis][0], &rows[axis][1], (length - 1) * sizeof rows[axis][0]);
            rows[axis][length - 1] = sample[axis];
        }
        received++;
        return received >= length && (received - length) % hop == 0;
    }

    // Into 6 x 64 floats. The unit is a power of two, so that nothing is rounded.
    void numbers(void *into) const
    {
        float *number = static_cast<float *>(into);
        for (uint32_t axis = 0; axis < SENSOR_AXES; axis++) {
            for (uint32_t place = 0; place < length; place++) {
                *number++ = static_cast<float>(rows[axis][place]) * SENSOR_UNIT;
            }
        }
    }
};

#endif
