// SPDX-License-Identifier: Apache-2.0
// The watch as a program of its own.
#include "watch.hpp"

int main()
{
    poet_board_init();
    tell_end(live());
    for (;;) {
    }
}
