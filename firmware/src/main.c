/* SPDX-License-Identifier: Apache-2.0 */
#include "poet/board.h"
#include "poet/built.h"
#include "poet/server.h"

static poet_server server;

int main(void)
{
    poet_board_init();
    poet_server_init(&server, &poet_built_in);
    for (;;) {
        const int byte = poet_board_getchar();
        if (byte >= 0) {
            poet_server_receive(&server, (char)byte);
        }
    }
}
