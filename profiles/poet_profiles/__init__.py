# SPDX-License-Identifier: Apache-2.0
"""What the harness and the planner share: operators, boards and profile tables."""
