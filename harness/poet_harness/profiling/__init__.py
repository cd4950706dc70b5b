# SPDX-License-Identifier: Apache-2.0
"""Profiling a board: which configurations, each measured until it is known well enough, each row on disk."""
