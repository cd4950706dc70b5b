# SPDX-License-Identifier: Apache-2.0
"""What to train, and how, for the least energy: docs/advice.md."""
