# SPDX-License-Identifier: Apache-2.0
"""Whether a board is ready to run a plan: an agent loads it, firmware was flashed with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from poet_profiles.errors import UserError

if TYPE_CHECKING:
    from ..plan_folder.plan import Plan
    from ..protocol.device import Device

NO_HASH = "0" * 16


def _has(device: Device, plan: Plan) -> bool:
    """Whether the board has the plan, and what is beside it."""
    hello, beside = device.hello, (plan.inference, plan.extraction)
    wanted = (plan.graph_hash, plan.schedule_hash, *("" if one is None else one.schedule_hash for one in beside))
    return (hello.model, hello.schedule, hello.inference, hello.features) == wanted


def make_ready(device: Device, plan: Plan) -> None:
    """Let an agent load this plan; make sure that a board with firmware was flashed with it."""
    if device.hello.is_agent != bool(plan.documents):
        here, there = ("poet-agent", "firmware") if device.hello.is_agent else ("firmware", "PyTorch, by poet-agent")
        raise UserError(f"{device.link.name}: runs {here}, and the plan is one for {there}; plan with its profile")
    if plan.documents and (device.hello.model, device.hello.schedule) != (plan.graph_hash, plan.schedule_hash):
        for document in plan.documents:
            device.load(document)
    if device.hello.loads and not _has(device, plan):
        if not plan.data:
            raise UserError(f"{device.link.name}: a sketch loads plan.bin, which the plan lacks; plan again")
        device.load(plan.data)
        device.greet()
    hello = device.hello
    flash = "plan again" if hello.loads else "run poet-harness flash first"
    # Headers from before schedules had a hash can be built all the same.
    again = "plan again, then flash" if hello.schedule == NO_HASH else flash
    features = [] if plan.extraction is None else [("features", hello.features, plan.extraction.schedule_hash, flash)]
    for what, found, wanted, cure in (
        ("model", hello.model, plan.graph_hash, flash),
        ("schedule", hello.schedule, plan.schedule_hash, again),
        *features,
    ):
        if found != wanted:
            raise UserError(f"{device.link.name}: the board's {what} has the hash {found}, the plan's {wanted}; {cure}")
