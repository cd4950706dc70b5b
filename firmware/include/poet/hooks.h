/* SPDX-License-Identifier: Apache-2.0 */
/* What the core calls while it works, all of it optional: a clock, a line for a power meter, a word between two steps
 * of the schedule.
 *
 *     const poet_hooks hooks = {.between = feed_watchdog};
 */
#ifndef POET_HOOKS_H
#define POET_HOOKS_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How far a run of the schedule has come. */
typedef struct poet_progress {
    uint32_t steps; /* completed */
    uint32_t step_count;
} poet_progress;

typedef struct poet_hooks {
    uint32_t (*ticks)(void); /* a free-running counter that may wrap; without it every time is 0 */
    uint32_t ticks_hz;
    void (*window)(bool inside); /* the line that marks the measured window for a power meter: high inside */
    bool (*between)(void *context, const poet_progress *progress); /* false: stop */
    void *context;
} poet_hooks;

#ifdef __cplusplus
}
#endif

#endif
