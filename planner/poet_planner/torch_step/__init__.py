# SPDX-License-Identifier: Apache-2.0
"""`poet_planner.compile`: a planned training step in the place of a forward and a backward pass (docs/pytorch.md)."""
