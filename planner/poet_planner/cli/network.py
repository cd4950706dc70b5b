# SPDX-License-Identifier: Apache-2.0
"""What ``--graph`` or ``--model`` names, for the verbs that take either."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

DEFAULT_MODEL = "poet_resnet18"


def network(graph: Path | None, model: str | None, others: Mapping[str, object] | None = None) -> Path | str:
    """The graph's file, or the model's name.

    Parameters
    ----------
    others : mapping, optional
        Further options that go with a model only, by name, and what each was given; None where it was not.

    Raises
    ------
    UserError
        If an option of a model is given beside a graph.
    """
    from poet_planner.planning.request import refuse_beside_a_graph

    if graph is None:
        return model or DEFAULT_MODEL
    refuse_beside_a_graph({"--model": model, **(others or {})})
    return graph
