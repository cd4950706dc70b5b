/* SPDX-License-Identifier: Apache-2.0 */
/* What the calls of a run took, of which a program that reads no trace links nothing. */
#ifndef POET_RUNTIME_TRACE_H
#define POET_RUNTIME_TRACE_H

#include "poet/operator.h"
#include "poet/runner.h"

POET_OPTIONAL void poet_keep_ticks(poet_runner *runner, const poet_run *run, uint32_t call, uint32_t ticks);

#endif
