# SPDX-License-Identifier: Apache-2.0
"""The part of a step that is the same in every epoch: computed once a sample and kept."""
