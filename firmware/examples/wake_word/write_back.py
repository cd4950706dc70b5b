# SPDX-License-Identifier: Apache-2.0
"""Trained weights back into the `.tflite` file: the same graph, other numbers."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file
from tflite import TensorType
from tflite_torch import File, Window
from torch import Tensor, nn
from wake import numbers, sold


def _ranges(module: Window, x: Tensor) -> list[tuple[float, float]]:
    """Of each layer's output, after its activation; 0 is in each."""
    found: list[tuple[float, float]] = []

    def seen(_: nn.Module, __: object, made: Tensor) -> None:
        made = made.relu() if module.relus[len(found)] else made
        found.append((min(float(made.min()), 0.0), max(float(made.max()), 1e-3)))

    handles = [layer.register_forward_hook(seen) for layer in module.layers]
    with torch.no_grad():
        module(x)
    for handle in handles:
        handle.remove()
    return found


def _set_ranges(file: File, module: Window, x: Tensor) -> None:
    """States and what is made of them have the numbers of the layer before them."""
    tensors = [graph.Tensors(number) for graph in file.graphs for number in range(graph.TensorsLength())]
    quantised = [one.Quantization() for one in tensors if one.Type() == TensorType.INT8]
    scaled = [one for one in quantised if one is not None and one.ScaleLength() == 1]
    were = [(one.ScaleAsNumpy()[0], one.ZeroPointAsNumpy()[0]) for one in scaled]
    for call, (low, high) in zip(file.layers, _ranges(module, x), strict=True):
        about = file.quantised(call.outputs[0])
        old, scale = (about.ScaleAsNumpy()[0], about.ZeroPointAsNumpy()[0]), np.float32((high - low) / 255)
        for one, was in zip(scaled, were, strict=True):
            if was == old:
                one.ScaleAsNumpy()[0], one.ZeroPointAsNumpy()[0] = scale, np.clip(round(-128 - low / scale), -128, 127)


def write_back(path: Path, module: Window, x: Tensor) -> bytes:
    """The file with the module's weights, and with the ranges that activations have for ``x``."""
    data = bytearray(path.read_bytes())
    file = File(data)
    _set_ranges(file, module, x)
    channels = 0
    for call, layer in zip(file.layers, module.layers, strict=True):
        weight, bias = layer.weight.detach().double().numpy(), layer.bias.detach().double().numpy()
        about = file.quantised(call.inputs[1])
        if isinstance(layer, nn.Linear):
            weight = weight.reshape(len(weight), channels, -1).transpose(0, 2, 1)  # frames first
            scale = np.full(1, np.abs(weight).max() / 127)
        else:
            weight = weight.transpose(0, 2, 1)
            scale = np.maximum(np.abs(weight).max((1, 2)), 1e-9) / 127
            channels = len(weight)
        weight = np.round(weight / scale[:, None, None])
        if call.name == "DEPTHWISE_CONV_2D":
            weight = weight.transpose(2, 1, 0)
        stored = file.numbers(call.inputs[1])
        stored[...] = weight.reshape(stored.shape)
        about.ScaleAsNumpy()[:] = scale
        scale = scale * file.quantised(call.inputs[0]).ScaleAsNumpy()[0]
        file.quantised(call.inputs[2]).ScaleAsNumpy()[:] = scale
        file.numbers(call.inputs[2])[...] = np.round(bias / scale)
    return bytes(data)


if __name__ == "__main__":
    trained, samples, out = map(Path, sys.argv[1:])
    network = Window(sold()).eval()
    network.load_state_dict(load_file(trained))
    out.write_bytes(write_back(sold(), network, numbers(np.load(samples)["x_train"])))
