# SPDX-License-Identifier: Apache-2.0
"""The harness: profiles boards, flashes plans, trains on boards and compares with what was predicted."""

from poet_profiles.moved import moved

from .former_names import FORMER_NAMES

moved(__name__, FORMER_NAMES)
