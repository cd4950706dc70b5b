# SPDX-License-Identifier: Apache-2.0
"""A user's data set as the tensors of a plan (docs/SPEC.md, section 8)."""

from __future__ import annotations

from poet_profiles.errors import UserError
from poet_profiles.graph.kept import BATCH_KINDS
from poet_profiles.quantised import Normalising
from poet_profiles.samples import BatchTensor, SampleSets, read_sets

from ..plan_folder.plan import Plan


def batch_tensors(plan: Plan) -> tuple[list[BatchTensor], int]:
    """The tensors that each step is given, in the plan's order, and how many samples a batch has, in all its parts.

    Raises
    ------
    UserError
        If their first axes are not equally long: then no axis counts samples.
    """
    found = [(index, tensor) for index, tensor in enumerate(plan.tensors) if tensor.kind in BATCH_KINDS]
    extents = {tensor.shape[0] if tensor.shape else 0 for _, tensor in found}
    if len(extents) != 1 or not min(extents):
        named = ", ".join(f"{tensor.id} {list(tensor.shape)}" for _, tensor in found)
        raise UserError(
            f"--samples: the first axes of {named} are not of one length; prepare batches with poet-plan data"
        )
    return [
        BatchTensor(
            *(index, tensor.id, tensor.kind, tensor.shape[1:], plan.type_of(tensor)),
            *(plan.choices.get(tensor.id), plan.ignored.get(tensor.id)),
        )
        for index, tensor in found
    ], min(extents) * plan.micro_batches


def read_samples(source: str, plan: Plan, normalising: Normalising | None, least: int | None = None) -> SampleSets:
    """Read a data set as `poet_profiles.samples.read_sets` does; ``least`` are samples that there must be, not a batch.

    Raises
    ------
    UserError
        With the array's name, what it is, and what the plan reads.
    """
    tensors, batch = batch_tensors(plan)
    sets = read_sets(source, tensors, normalising)
    if least is None and sets.train.count < batch:
        raise UserError(
            f"{source}: has {sets.train.count} samples, a batch takes {batch}; give more, or plan a smaller one"
        )
    if sets.train.count < (least or 0):
        raise UserError(f"{source}: holds no sample")
    return sets
