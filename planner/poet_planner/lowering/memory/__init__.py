# SPDX-License-Identifier: Apache-2.0
"""Where a lowered step's tensors live: in place, in sums, in slices, on the card."""
