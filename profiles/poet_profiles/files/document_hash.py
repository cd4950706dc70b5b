# SPDX-License-Identifier: Apache-2.0
"""The hash of a JSON document (docs/SPEC.md, section 3): by it host and board know a graph and a schedule again."""

from __future__ import annotations

import hashlib
import json


def document_hash(document: object) -> str:
    """The first 64 bits of SHA-256 over the document's shortest JSON with sorted keys, 16 hex digits."""
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:16]
