# SPDX-License-Identifier: Apache-2.0
"""Models by name: the built-in ones, and any other as ``module:callable``."""

from poet_planner.models.registry import Model, frozen_bytes, least_ram_bytes, load, load_batches, names, trained_bytes

__all__ = ["Model", "frozen_bytes", "least_ram_bytes", "load", "load_batches", "names", "trained_bytes"]
