# SPDX-License-Identifier: Apache-2.0
"""Data and weights that a training begins with, as the tensors of a plan."""
