# SPDX-License-Identifier: Apache-2.0
"""Traced operators that a board lacks become others that it has."""
