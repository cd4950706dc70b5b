/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of a built plan, once at start: what passes can be followed without looking. */
#ifndef POET_RUNTIME_PLAN_CHECK_H
#define POET_RUNTIME_PLAN_CHECK_H

#include <stdbool.h>

#include "poet/model.h"
#include "poet/operator.h"
#include "poet/schedule.h"

/* POET_E_HASH, POET_E_CORRUPT, POET_E_UNSUPPORTED or POET_E_ORDER, as poet_runner_init. */
int poet_plan_check(const poet_model *model, const poet_schedule *schedule, const poet_operator_set *operators);

/* Whether a node changes what is carried in RAM from step to step. */
bool poet_plan_changes_weights(const poet_model *model, const poet_node *node);

#endif
