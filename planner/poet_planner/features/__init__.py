# SPDX-License-Identifier: Apache-2.0
"""What of a step is the same in every epoch: computed once a sample, kept, and read by the rest, the head's step."""
