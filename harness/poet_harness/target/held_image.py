# SPDX-License-Identifier: Apache-2.0
"""A card's image is one program's while that writes it; several may read it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from poet_profiles.errors import UserError
from poet_profiles.files.locks import held

REFUSAL = "another poet-harness run has this card; wait for its end, or name another image"


@contextmanager
def held_image(path: Path, *, shared: bool = False) -> Iterator[None]:
    """Keep other programs off an image for as long as the context lasts. A card in a reader is left to the system.

    An image that is not there is made, empty, and taken away again if nothing is put into it.

    Parameters
    ----------
    shared : bool
        Whether others may read it meanwhile.

    Raises
    ------
    UserError
        If another has it, or it cannot be made.
    """
    if path.exists() and not path.is_file():
        yield
        return
    try:
        path.touch(exist_ok=False)
        made = True
    except FileExistsError:
        made = False
    except OSError as error:
        raise UserError(f"{path}: cannot use it as a card image: {error.strerror}") from None
    with held(path, REFUSAL, shared=shared):
        try:
            yield
        finally:
            if made and not path.stat().st_size:
                path.unlink()
