# SPDX-License-Identifier: Apache-2.0
"""Battery cells: what their makers publish of them, from ``profiles/cells/*.toml``."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from .errors import FaultError, UserError
from .files.json_file import check_document
from .files.text_file import read_text
from .shipped import SHIPPED


class Cell(BaseModel):
    """One cell as published.

    Attributes
    ----------
    voltage_v : float
        Nominal: about the mean over a discharge at the rated current.
    rated_current_a : float or None
        The discharge at which the capacity holds; a larger one leaves less.
    source : str
        The data sheet.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9_-]*$")]
    title: str
    capacity_ah: float = Field(gt=0, allow_inf_nan=False)
    voltage_v: float = Field(gt=0, allow_inf_nan=False)
    rated_current_a: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    source: Annotated[str, StringConstraints(min_length=1)]


def cell_names() -> list[str]:
    """Names of the cells that poet knows."""
    return sorted(path.stem for path in (SHIPPED / "cells").glob("*.toml"))


def load_cell(name: str) -> Cell:
    """Read a cell by its name, or from the path of a ``.toml`` file."""
    path = Path(name) if name.endswith(".toml") else SHIPPED / "cells" / f"{name}.toml"
    if not path.is_file():
        raise UserError(
            f"no cell named {name!r}; known are {', '.join(cell_names())} (or give a capacity, such as 500mAh, or a "
            ".toml file)"
        )
    try:
        document = tomllib.loads(read_text(path))
        check_document(document)
        return Cell.model_validate(document)
    except (tomllib.TOMLDecodeError, FaultError) as error:
        raise UserError(f"{path}: {error}") from None
    except ValidationError as error:
        first = error.errors()[0]
        raise UserError(f"{path}: {'.'.join(str(part) for part in first['loc'])}: {first['msg']}") from None
