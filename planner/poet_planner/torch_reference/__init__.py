# SPDX-License-Identifier: Apache-2.0
"""What PyTorch itself gives: batches and gradients that a board's, or a plan's, are held against."""
