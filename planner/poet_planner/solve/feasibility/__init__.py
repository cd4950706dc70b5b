# SPDX-License-Identifier: Apache-2.0
"""Whether any schedule fits: within a deadline, and in how little RAM."""
