# SPDX-License-Identifier: Apache-2.0
"""Linear models with integers, and the solvers for them."""
