# SPDX-License-Identifier: Apache-2.0
"""Lower bounds from an order-free MILP, solved at few event points and refined."""
