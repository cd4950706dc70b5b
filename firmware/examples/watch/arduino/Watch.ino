// SPDX-License-Identifier: Apache-2.0
// The watch as a sketch. It needs two files that are made on a computer, as firmware/examples/watch/README.md of poet
// says: recordings.c beside this one, and the library watch_net.
#include <poet.h>
#include <watch_net.h>

#include "watch.hpp"

void setup()
{
    poet_board_init();
    tell_end(live());
}

void loop() {}
