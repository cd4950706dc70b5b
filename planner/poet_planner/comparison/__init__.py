# SPDX-License-Identifier: Apache-2.0
"""The optimiser beside other schedulers: methods by name, comparisons, sweeps, and their pictures."""
