"""What the harness and the planner share: operators, boards and profile tables."""
