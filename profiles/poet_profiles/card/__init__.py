# SPDX-License-Identifier: Apache-2.0
"""What a graph keeps on the card, and where (docs/SPEC.md, section 7)."""
