# SPDX-License-Identifier: Apache-2.0
"""From a traced graph to one that a board can run: operators of the vocabulary, sizes, residents with their places.

For a microcontroller every operator becomes one of the firmware's, with the firmware's sizes (pooling indices are
bytes, labels 32-bit integers), and the optimizer's step stands after all gradients. For a Linux board, where PyTorch
runs the traced operators themselves, sizes are PyTorch's and an operator outside of the vocabulary is named
``aten.NAME``.
"""

from poet_planner.lowering.firmware import lower_for_firmware
from poet_planner.lowering.inference import LoweredInference, lower_inference
from poet_planner.lowering.linux import lower_for_linux
from poet_planner.lowering.memory.card import with_constants_on_the_card, with_parameters_on_the_card
from poet_planner.lowering.memory.early import with_early_updates
from poet_planner.lowering.memory.in_place import with_taking_over, without_taking_over
from poet_planner.lowering.memory.slices import with_slices
from poet_planner.lowering.memory.updates import with_updates

__all__ = [
    "LoweredInference",
    "lower_for_firmware",
    "lower_for_linux",
    "lower_inference",
    "with_constants_on_the_card",
    "with_early_updates",
    "with_parameters_on_the_card",
    "with_slices",
    "with_taking_over",
    "with_updates",
    "without_taking_over",
]
