# SPDX-License-Identifier: Apache-2.0
"""Whether a microcontroller trains with each layer of `torch.nn`, as docs/layers.md says."""

from __future__ import annotations

import re
from itertools import groupby

import pytest
import torch
from poet_planner.lowering import lower_for_firmware
from poet_planner.schedule.c_headers import why_no_headers
from poet_planner.tracing import trace
from poet_profiles.errors import UserError
from torch import nn

from tests.support import ROOT, needs
from tests.support.firmware.against_autograd import equals_autograd
from tests.support.firmware.host_operators import Operators
from tests.support.networks.forms import FORMS
from tests.support.networks.torch_layers import Behind, model, public_layers

PAGE = ROOT / "docs" / "layers.md"
# All others are whole.
CURES = {
    "AdaptiveLogSoftmaxWithLoss": "use Linear and CrossEntropyLoss",
    "CTCLoss": "train with CrossEntropyLoss, a label for each step in time",
    "Conv3d": "use Conv2d, with depth among the channels",
    "ConvTranspose3d": "use Conv2d, with depth among the channels",
    "CrossMapLRN2d": "use LocalResponseNorm",
    "DataParallel": "give its .module",
    "FractionalMaxPool2d": "use MaxPool2d or MaxPool3d",
    "FractionalMaxPool3d": "use MaxPool2d or MaxPool3d",
    "RReLU": "use LeakyReLU",
}
WHOLE = [name for name in public_layers() if name not in CURES]


@pytest.mark.parametrize("name", public_layers())
def test_a_layer_is_whole_or_refused_with_a_cure(name: str) -> None:
    step = model(name)
    try:
        traced = trace(step.module, step.inputs, step.targets, step.loss, name, segments=1)
        said = why_no_headers(lower_for_firmware(traced))
    except UserError as refusal:
        said = str(refusal)
    assert (said is None) == (name in WHOLE)
    assert said is None or (name in said and said.endswith(CURES[name]))


@needs.gcc
@pytest.mark.parametrize(
    "name",
    [
        *(
            "Bilinear",
            "CELU",
            "CircularPad3d",
            "CosineEmbeddingLoss",
            "CosineSimilarity",
            "EmbeddingBag",
            "Fold",
            "GLU",
        ),
        *("GaussianNLLLoss", "GRUCell", "HuberLoss", "InstanceNorm1d", "KLDivLoss", "LPPool2d", "LocalResponseNorm"),
        *("MaxUnpool3d", "MultiLabelMarginLoss", "MultiMarginLoss", "PReLU", "PairwiseDistance", "PixelShuffle"),
        *("RMSNorm", "Softmax2d", "Transformer", "TripletMarginLoss", "UpsamplingBilinear2d"),
    ],
)
def test_gradients_are_pytorchs(name: str, operators: Operators) -> None:
    step = model(name)
    equals_autograd(step.module, step.inputs[0], operators, step.targets[0], step.loss)


@needs.gcc
def test_projected_states_are_pytorchs(operators: Operators) -> None:
    torch.manual_seed(0)
    layer = nn.LSTM(8, 5, batch_first=True, proj_size=2)
    equals_autograd(Behind(nn.Linear(6, 8), layer, lambda rnn, x: rnn(x)[0]), torch.randn(2, 3, 6), operators)


def test_the_page_lists_them_all() -> None:
    rows = [f"Whole, {len(WHOLE)}: {listed(WHOLE)}.", f"Refused with a cure, {len(CURES)}:"]
    rows += [f"- `{name}`: {cure}" for name, cure in CURES.items()]
    rows.append(f"Whole networks, {len(FORMS)}: {', '.join(make.__name__.replace('_', ' ') for make in FORMS)}.")
    page = " ".join(PAGE.read_text(encoding="utf-8").split())
    assert [row for row in rows if row not in page] == []


def listed(names: list[str]) -> str:
    """Names of classes; those that differ in their axes alone, once."""
    groups = groupby(names, key=lambda name: re.sub(r"[123]d$", "", name))
    return ", ".join(f"`{kind}{'/'.join(name[len(kind) :] for name in same)}`" for kind, same in groups)
