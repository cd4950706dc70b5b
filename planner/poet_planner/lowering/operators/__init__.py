# SPDX-License-Identifier: Apache-2.0
"""From one traced operator to nodes of the vocabulary, and why there is none."""
