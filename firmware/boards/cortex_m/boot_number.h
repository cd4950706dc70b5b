/* SPDX-License-Identifier: Apache-2.0 */
/* A number for each boot, on chips without a random number generator. */
#ifndef CORTEX_M_BOOT_NUMBER_H
#define CORTEX_M_BOOT_NUMBER_H

#include <stdint.h>

/* Called once, before anything is written to the model's RAM. */
uint32_t boot_number(void);

#endif
