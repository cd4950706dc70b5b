# SPDX-License-Identifier: Apache-2.0
"""Sets of parameters that may be trained, and how a model's name says them."""

from __future__ import annotations

import pytest
from poet_planner import models
from poet_planner.advice.trained_sets import sets_of
from poet_planner.models.trained import train_only
from poet_profiles.errors import UserError
from torch import nn


def learning(name: str) -> set[str]:
    return {path for path, one in models.load(name).module.named_parameters() if one.requires_grad}


def test_sets_go_from_the_head_to_all() -> None:
    conv = nn.Sequential(nn.Conv1d(2, 3, 1), nn.BatchNorm1d(3), nn.ReLU())
    found = {one.name: one.learns for one in sets_of(nn.Sequential(conv, nn.Flatten(), nn.Linear(3, 3)))}
    of_conv, of_norm, head = ({f"{layer}.weight", f"{layer}.bias"} for layer in ("0.0", "0.1", "2"))
    assert found == {
        "head": head,
        "last 2 of 3": of_norm | head,
        "biases, head": {"0.0.bias", "0.1.bias"} | head,
        "first, head": of_conv | head,
        "all": of_conv | of_norm | head,
    }


def test_what_the_module_has_frozen_stays_so() -> None:
    module = nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 3))
    module[0].requires_grad_(False)
    (only,) = sets_of(module)
    assert (only.name, only.patterns) == ("all", ())
    assert only.learns == {"2.weight", "2.bias"}


def test_a_name_says_what_learns() -> None:
    names = learning("digits_cnn_small")
    head = {"fc.weight", "fc.bias"}
    assert learning("digits_cnn_small[conv5,fc]") == {"conv5.weight", "conv5.bias"} | head
    assert learning("digits_cnn_small[*bias, fc]") == {path for path in names if path.endswith("bias")} | head
    assert learning("digits_cnn_small[block?.conv]") == {path for path in names if path.startswith("block")}


def test_a_norm_of_which_nothing_learns_keeps_its_statistics() -> None:
    module = nn.Sequential(nn.BatchNorm1d(3), nn.Linear(3, 3), nn.BatchNorm1d(3, affine=False))
    train_only(module, {"1.weight"})
    assert [one.training for one in module] == [False, True, True]


def test_a_pattern_of_nothing_is_refused() -> None:
    with pytest.raises(UserError, match=r"nothing that may be trained is of conv9; there are conv1\.weight"):
        models.load("digits_cnn[conv9]")
