/* SPDX-License-Identifier: Apache-2.0 */
/* What a program may lack: its address is NULL where nothing in the program names it (POET_KERNELS). */
#ifndef POET_OPTIONAL_H
#define POET_OPTIONAL_H

#define POET_OPTIONAL __attribute__((weak))

#endif
