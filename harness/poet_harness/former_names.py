# SPDX-License-Identifier: Apache-2.0
"""Where modules are that had another name in the last release."""

FORMER_NAMES = {
    "benchmark": "poet_harness.profiling; idle and measure are in poet_harness.measuring",
    "connection": "poet_harness.target; ports is poet_harness.ports",
    "meters.emulated": "poet_harness.emulation.meter",
    "verbs.compare": "poet_harness.verbs.diff",
    "verbs.epochs": "poet_harness.verbs.train",
    **{
        f"training.{name}": f"poet_harness.data.{name}" for name in ("batches", "initial_weights", "samples", "weights")
    },
    **{
        f"training.{name}": f"poet_harness.plan_folder.{name}"
        for name in ("inference", "optimizer", "page_blocks", "plan", "program_tensors")
    },
}
