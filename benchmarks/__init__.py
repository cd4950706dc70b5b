# SPDX-License-Identifier: Apache-2.0
"""Benchmarks of planner, harness, firmware and emulated boards; each folder's README has the commands."""
