# SPDX-License-Identifier: Apache-2.0
"""Running training steps under a plan on a board, and holding what it did against what was predicted."""
