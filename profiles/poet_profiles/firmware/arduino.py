# SPDX-License-Identifier: Apache-2.0
"""Arduino's manifest of a library, from PlatformIO's: the core and each network are libraries of both."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def library_properties(manifest: Mapping[str, Any], depends: str = "") -> str:
    """Text of ``library.properties``, by Arduino's library specification.

    Parameters
    ----------
    manifest : mapping
        What ``library.json`` holds.
    depends : str, optional
        Names of further libraries.
    """
    properties = {
        "name": manifest["name"],
        "version": manifest["version"],
        "author": "The poet maintainers",
        "maintainer": "The poet maintainers",
        "sentence": manifest["description"],
        "paragraph": "Plans are made by poet-plan.",
        "category": "Data Processing",
        "url": "https://arxiv.org/abs/2207.07697",
        "architectures": "*",
        "includes": manifest["headers"],
        "depends": depends,
        # Kernels are weak: only out of an archive does the linker take those alone that are named.
        "dot_a_linkage": "true",
    }
    # A value ends with its line, and a network's name is anybody's.
    return "".join(f"{key}={' '.join(value.split())}\n" for key, value in properties.items() if value)
