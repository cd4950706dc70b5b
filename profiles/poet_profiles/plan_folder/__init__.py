# SPDX-License-Identifier: Apache-2.0
"""The folder of a plan, a format that planner and harness share (docs/SPEC.md, section 4)."""

GRAPH_FILE, SCHEDULE_FILE, SUMMARY_FILE, PROGRAM_FILE = "graph.json", "schedule.json", "summary.json", "program.json"
DATA_FILE = "plan.bin"
