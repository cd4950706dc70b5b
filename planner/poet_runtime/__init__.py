# SPDX-License-Identifier: Apache-2.0
"""Runs a planned training step in PyTorch: what a board needs of poet beside `torch` and `numpy`."""
