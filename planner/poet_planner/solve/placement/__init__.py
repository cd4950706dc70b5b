# SPDX-License-Identifier: Apache-2.0
"""Static offsets for the values of a schedule (dynamic storage allocation)."""
