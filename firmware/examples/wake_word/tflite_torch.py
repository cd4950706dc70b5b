# SPDX-License-Identifier: Apache-2.0
"""A streaming network of a `.tflite` file as a PyTorch module over a window, in f32.

For networks that keep states in variables: microWakeWord's, and ESPHome's further models. A state joined with what is
new is, over a window, all there is: so variables, and slices that fill them, vanish, and convolutions are plain ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import tflite
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

NAMES = {code: name for name, code in vars(tflite.BuiltinOperator).items() if isinstance(code, int)}
TYPES = {tflite.TensorType.FLOAT32: "<f4", tflite.TensorType.INT32: "<i4", tflite.TensorType.INT8: "<i1"}
# These give what they are given; the score stays without its sigmoid.
SAME = {"RESHAPE", "EXPAND_DIMS", "SQUEEZE", "STRIDED_SLICE", "QUANTIZE", "LOGISTIC"}
STATES = {"CALL_ONCE", "VAR_HANDLE", "READ_VARIABLE", "ASSIGN_VARIABLE"}
LAYERS = {
    "CONV_2D": tflite.Conv2DOptions,
    "DEPTHWISE_CONV_2D": tflite.DepthwiseConv2DOptions,
    "FULLY_CONNECTED": tflite.FullyConnectedOptions,
}


@dataclass(frozen=True)
class Call:
    """An operator, and the numbers of the tensors that it reads and makes."""

    name: str
    inputs: list[int]
    outputs: list[int]
    relu: bool


class File:
    """What a `.tflite` file says. Arrays are views of its bytes: who writes them changes it."""

    def __init__(self, data: bytearray) -> None:
        self.model = tflite.Model.GetRootAs(data)
        self.graphs = [self.model.Subgraphs(number) for number in range(self.model.SubgraphsLength())]
        graph = self.graphs[0]
        self.first = int(graph.Inputs(0))
        self.calls = [self._call(graph.Operators(number)) for number in range(graph.OperatorsLength())]
        self.layers = [call for call in self.calls if call.name in LAYERS]

    def _call(self, operator: Any) -> Call:
        code = self.model.OperatorCodes(operator.OpcodeIndex())
        name = NAMES[max(code.BuiltinCode(), code.DeprecatedBuiltinCode())]
        inputs = [int(operator.Inputs(place)) for place in range(operator.InputsLength())]
        outputs = [int(operator.Outputs(place)) for place in range(operator.OutputsLength())]
        if name not in LAYERS:
            return Call(name, inputs, outputs, False)
        options = LAYERS[name]()
        options.Init(operator.BuiltinOptions().Bytes, operator.BuiltinOptions().Pos)
        activation = options.FusedActivationFunction()
        if activation not in (tflite.ActivationFunctionType.NONE, tflite.ActivationFunctionType.RELU):
            raise ValueError(f"{name}: activation {activation} is not read")
        return Call(name, inputs, outputs, activation == tflite.ActivationFunctionType.RELU)

    def shape(self, number: int) -> tuple[int, ...]:
        """Of a tensor."""
        tensor = self.graphs[0].Tensors(number)
        return tuple(map(int, tensor.ShapeAsNumpy())) if tensor.ShapeLength() else ()

    def numbers(self, number: int) -> NDArray[Any]:
        """A constant as it is stored."""
        tensor = self.graphs[0].Tensors(number)
        data = self.model.Buffers(tensor.Buffer()).DataAsNumpy()
        return np.asarray(data.view(TYPES[tensor.Type()]).reshape(self.shape(number)))

    def quantised(self, number: int) -> Any:
        """Scales and zero points of a tensor."""
        return self.graphs[0].Tensors(number).Quantization()

    def real(self, number: int) -> NDArray[np.float32]:
        """A constant's numbers with its scales, of which it has one, or one along an axis."""
        values, about = self.numbers(number), self.quantised(number)
        along = [1] * values.ndim
        along[about.QuantizedDimension() if about.ScaleLength() > 1 else 0] = -1
        zeros, scales = (array.reshape(along) for array in (about.ZeroPointAsNumpy(), about.ScaleAsNumpy()))
        return ((values.astype(np.float64) - zeros) * scales).astype(np.float32)


class Window(nn.Module):
    """[batch, bins, frames] to a score [batch, 1] without its sigmoid."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        file = File(bytearray(path.read_bytes()))
        self.first, self.frames = file.first, 0
        self.layers, self.relus = nn.ModuleList(), list[bool]()
        self.steps: list[tuple[str, list[int], list[int], Any]] = []
        states = {call.outputs[0] for call in file.calls if call.name == "READ_VARIABLE"}
        source, needed = {file.first: file.first}, {file.first: 0}
        for call in file.calls:
            inputs = [source[number] for number in call.inputs if number in source]
            if call.name in SAME or (call.name == "CONCATENATION" and set(call.inputs) & states):
                source[call.outputs[0]] = inputs[0]
                continue
            if call.name in STATES:
                continue
            source |= {number: number for number in call.outputs}
            before, about = max(needed[number] for number in inputs), None
            if call.name in LAYERS:
                about, before = len(self.layers), before + self._add(file, call)
            elif call.name in {"SPLIT", "SPLIT_V"}:
                about = [file.shape(number)[-1] for number in call.outputs]
            elif call.name != "CONCATENATION" or len({file.shape(number)[1] for number in call.inputs}) > 1:
                raise ValueError(f"{call.name} is not read")
            needed |= dict.fromkeys(call.outputs, before)
            self.steps.append((call.name, inputs, call.outputs, about))
        stride, first = file.shape(file.first)[1], self.layers[0].kernel_size[0]
        self.layers[0].stride = (stride,)  # the frames of a call
        self.frames = (before - (first - 1)) * stride + first

    def _add(self, file: File, call: Call) -> int:
        """Make a layer, and say how many columns its output is shorter by."""
        weight, bias = (torch.from_numpy(file.real(number)) for number in call.inputs[1:3])
        if call.name == "FULLY_CONNECTED":
            channels = self.layers[-1].out_channels
            weight = weight.reshape(len(weight), -1, channels).transpose(1, 2)  # frames last
            layer: Any = nn.Linear(prod(weight.shape[1:]), len(weight))
            shorter = weight.shape[2] - 1
        else:
            deep = call.name == "DEPTHWISE_CONV_2D"
            weight = weight[0].permute(2, 1, 0) if deep else weight[:, :, 0].transpose(1, 2)
            groups, shorter = len(weight) if deep else 1, weight.shape[2] - 1
            layer = nn.Conv1d(weight.shape[1] * groups, len(weight), weight.shape[2], groups=groups)
        layer.weight.data, layer.bias.data = weight.reshape(layer.weight.shape).contiguous(), bias
        self.layers.append(layer)
        self.relus.append(call.relu)
        return int(shorter)

    def forward(self, x: Tensor) -> Tensor:
        values = {self.first: x}
        for name, inputs, outputs, about in self.steps:
            given = [values[number] for number in inputs]
            if name == "CONCATENATION":
                least = min(each.shape[2] for each in given)  # the newest columns that all have
                values[outputs[0]] = torch.cat([each[:, :, each.shape[2] - least :] for each in given], 1)
            elif name in {"SPLIT", "SPLIT_V"}:
                values |= dict(zip(outputs, given[0].split(about, 1), strict=True))
            else:
                made = self.layers[about](given[0].flatten(1) if name == "FULLY_CONNECTED" else given[0])
                values[outputs[0]] = made.relu() if self.relus[about] else made
        return values[outputs[0]]
