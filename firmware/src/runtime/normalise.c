/* SPDX-License-Identifier: Apache-2.0 */
#include "poet/normalise.h"

#include <string.h>

uint32_t poet_number_bytes(uint32_t type)
{
    static const uint8_t bytes[] = {4, 1, 1, 2};
    return type < sizeof bytes ? bytes[type] : 0;
}

static int32_t number_at(poet_number type, const uint8_t *numbers, uint32_t place)
{
    switch (type) {
    case POET_NUMBER_I8:
        return numbers[place] < 128 ? numbers[place] : numbers[place] - 256;
    case POET_NUMBER_I16: {
        const int32_t word = numbers[2u * place] | numbers[2u * place + 1u] << 8;
        return word < 32768 ? word : word - 65536;
    }
    default:
        return numbers[place];
    }
}

void poet_normalise(poet_number type, float shift, float scale, const void *numbers, uint32_t count, void *to)
{
    if (type == POET_NUMBER_WORD) {
        memcpy(to, numbers, 4u * count);
        return;
    }
    for (uint32_t i = 0; i < count; i++) {
        const float shifted = (float)number_at(type, numbers, i) - shift;
        const float normal = shifted * scale;
        memcpy((uint8_t *)to + 4u * i, &normal, sizeof normal);
    }
}
