# SPDX-License-Identifier: Apache-2.0
"""What several tests share: graphs, networks, the firmware built for this machine, simulated and emulated boards."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
