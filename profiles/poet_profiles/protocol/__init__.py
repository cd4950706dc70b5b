# SPDX-License-Identifier: Apache-2.0
"""What both ends of the line between harness and board know (docs/SPEC.md, section 6): frames and error numbers."""
