# SPDX-License-Identifier: Apache-2.0
"""Where modules are that had another name in the last release."""

FORMER_NAMES = {
    "baselines": "poet_planner.comparison.methods; store_all and page_all are in poet_planner.schedule",
    "drop_in": "poet_planner.torch_step",
    "reference": "poet_planner.torch_reference",
    "planning.comparison": "poet_planner.comparison.compare",
    "planning.methods": "poet_planner.comparison.registry; method_named is in poet_planner.planning.method",
    "planning.sweep": "poet_planner.comparison.sweep",
    "planning.board_ram": "poet_planner.planning.budget",
    "planning.memory_policy": "poet_planner.planning.request",
    "planning.task": "poet_planner.planning.request",
    "report.absences": "poet_planner.report.evictions",
    "report.cautions": "poet_planner.report.caveats",
    "report.modules": "poet_planner.report.module_groups",
    "report.points": "poet_planner.comparison.sweep_table",
    "report.wear": "poet_planner.report.card_wear",
    **{
        f"report.{name}": f"poet_planner.comparison.pictures.{name}"
        for name in ("curves", "energy_vs_deadline", "energy_vs_ram", "max_batch", "method_styles", "overhead_map")
    },
}
