# SPDX-License-Identifier: Apache-2.0
"""Mixed-integer linear models and the solvers for them (docs/optimiser/relaxation.md)."""
