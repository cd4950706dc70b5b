/* SPDX-License-Identifier: Apache-2.0 */
/* What a board gives to the start-up, and what it may ask of it. */
#ifndef CORTEX_M_STARTUP_H
#define CORTEX_M_STARTUP_H

/* Called first of all after a reset: no variable has its value yet. */
void startup_first(void);

/* Restarts the board where the stack has come near its end. Called while there is nothing else to do. */
void startup_check_stack(void);

#endif
