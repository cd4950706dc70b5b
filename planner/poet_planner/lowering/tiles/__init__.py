# SPDX-License-Identifier: Apache-2.0
"""Chains of operators that are computed tile by tile."""
