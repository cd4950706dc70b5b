# SPDX-License-Identifier: Apache-2.0
"""Simulated annealing over schedules, and what finds good ones beside it."""
