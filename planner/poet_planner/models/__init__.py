# SPDX-License-Identifier: Apache-2.0
"""Models by name: the built-in ones, and any other as ``module:callable``."""

from poet_planner.models.registry import Model, load, load_batches, names, parameter_bytes

__all__ = ["Model", "load", "load_batches", "names", "parameter_bytes"]
