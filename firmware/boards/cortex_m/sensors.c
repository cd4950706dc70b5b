/* SPDX-License-Identifier: Apache-2.0 */
/* A microcontroller's clock is set once, at start: there is nothing to watch. */
#include "poet/board.h"

void poet_board_sensors(poet_sensors *sensors)
{
    (void)sensors;
}
