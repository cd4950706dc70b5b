/* SPDX-License-Identifier: Apache-2.0 */
/* One enumeration for the whole firmware: 0 is success, every failure is negative, what is positive has not failed. */
#ifndef POET_STATUS_H
#define POET_STATUS_H

#ifdef __cplusplus
extern "C" {
#endif

typedef enum poet_status {
    POET_OK = 0,
    POET_MORE = 1,           /* under way: call again */
    POET_STOPPED = 2,        /* given up at the caller's wish; nothing has changed */
    POET_GATHERED = 3,       /* a micro-batch is in the sums; the last one of its batch changes the weights */
    POET_E_ARGUMENT = -1,    /* a caller's argument or an operator's parameters make no sense */
    POET_E_MEMORY = -2,      /* the RAM is too small */
    POET_E_HASH = -3,        /* the schedule was made for another graph than the built model */
    POET_E_ORDER = -4,       /* not now: something else has to come before, or is under way */
    POET_E_IO = -5,          /* the storage device reported an error or did not answer */
    POET_E_FULL = -6,        /* the storage device has no room */
    POET_E_CORRUPT = -7,     /* a page, frame or table failed its check */
    POET_E_UNSUPPORTED = -8, /* a known request that this build cannot serve */
    POET_E_ABSENT = -9,      /* no storage device, no schedule or no model in this build */
    POET_E_PROTECTED = -10,  /* the storage device is write-protected */
    POET_E_TAKEN = -11,      /* the storage device holds the tensors of another model */
    POET_E_NOT_FINITE = -12, /* a loss or a weight is infinite or no number; what was committed has not changed */
    POET_E_ARITHMETIC = -13  /* this build or core does not compute as IEEE 754 asks: the bits would be others */
} poet_status;

#ifdef __cplusplus
}
#endif

#endif
