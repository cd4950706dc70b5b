# SPDX-License-Identifier: Apache-2.0
"""Offsets for blocks whose lives are known (dynamic storage allocation): `place` for any blocks."""

from poet_planner.placement.places import Places, Verdict, place

__all__ = ["Places", "Verdict", "place"]
