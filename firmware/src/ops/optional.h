/* SPDX-License-Identifier: Apache-2.0 */
/* Functions that a program may lack: their addresses are NULL where nothing names their kernels (POET_KERNELS). */
#ifndef POET_OPS_OPTIONAL_H
#define POET_OPS_OPTIONAL_H

#define POET_OPTIONAL __attribute__((weak))

#endif
