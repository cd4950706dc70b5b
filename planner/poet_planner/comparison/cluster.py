# SPDX-License-Identifier: Apache-2.0
"""A sweep on the workers of a Dask cluster."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from poet_profiles.errors import UserError

from poet_planner.comparison.code_version import code_version

CONNECTING_S = 10


@contextmanager
def workers(scheduler: str | None) -> Iterator[None]:
    """Plan sweeps inside this block on the cluster of that scheduler; None: on this machine.

    Each worker loads the optimiser first, and builds its engine where there is none.

    Raises
    ------
    UserError
        If Dask is not installed, there is no such scheduler, it has no workers, or they cannot run this version of
        poet.
    """
    if scheduler is None:
        yield
        return
    from joblib import parallel_config

    with _connected(scheduler) as client:
        _prepare(client, scheduler)
        with parallel_config(backend="dask"):
            yield


@contextmanager
def _connected(scheduler: str) -> Iterator[Any]:
    try:
        distributed = import_module("distributed")
    except ImportError:
        raise UserError("--scheduler needs Dask: install poet-edge[cluster], on the workers, too") from None
    try:
        client = distributed.Client(scheduler, timeout=CONNECTING_S)
    except (OSError, ValueError) as error:
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise UserError(f"--scheduler {scheduler}: cannot be reached ({reason})") from None
    with client:
        yield client


def _prepare(client: Any, scheduler: str) -> None:
    addresses = list(client.scheduler_info(n_workers=-1)["workers"])
    if not addresses:
        raise UserError(f"--scheduler {scheduler}: has no workers; start some with `dask worker {scheduler}`")
    for address, version in _run(client, addresses).items():
        if version != code_version():
            raise UserError(
                f"--scheduler {scheduler}: worker {address} has poet {version}, and this is {code_version()}; "
                "install the same on both"
            )


def _run(client: Any, addresses: list[str]) -> dict[str, str]:
    """What `warmed_up` says on each worker."""
    try:
        results: dict[str, str] = client.run(warmed_up, workers=addresses)
    except ImportError as error:
        raise UserError(f"a worker of the cluster cannot import what poet needs ({error}); install it there") from None
    return results


def warmed_up() -> str:
    """Load the optimiser; the version of the code that does."""
    from poet_planner.comparison.warm_up import warm_up

    warm_up()
    return code_version()
