// SPDX-License-Identifier: Apache-2.0
// This board as a board of poet: upload it, then `poet-harness board new NAME --port PORT`.
#include <poet.h>
#include <PoetBoard.h>

void setup()
{
    Serial.begin(1000000);
    PoetBoard::begin("sketch", Serial);
}

void loop()
{
    PoetBoard::serve();
    yield();
}
