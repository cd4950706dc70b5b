# SPDX-License-Identifier: Apache-2.0
"""What to write instead of what the firmware lacks.

`tests/planner/lowering/test_cures.py` plans each of these.
"""

from __future__ import annotations

import re

LINUX = "train it on a Linux board"

# Operators' names without what tells forward from backward; what people call them, if by another word; what to write.
_TABLE = (
    ("topk sort median kthvalue", "order of more than 16 elements", "use the greatest, a mean or a softmax instead"),
    ("mode", "most frequent element", "use the median, a mean or a softmax instead"),
    ("cummax cummin", "running maximum", "use torch.stack([x[:, : k + 1].amax(1) for k in range(n)], 1)"),
    ("index index_select take", "choice by numbers that are computed", "multiply by F.one_hot(index, n).float()"),
    (
        "index_add index_copy index_put put scatter scatter_reduce",
        "writing by numbers that are computed",
        "multiply by F.one_hot(index, n).float(), or its .T",
    ),
    (
        "fft_r2c fft_c2c fft_c2r",
        "Fourier transform",
        "multiply by matrices of cosines and sines from register_buffer",
    ),
    ("empty", "tensor that begins without numbers", "begin with torch.zeros"),
    ("upsample_bilinear2d_aa upsample_bicubic2d_aa", "antialiased interpolation", "use antialias=False"),
    ("grid_sampler_2d grid_sampler_3d", "sampling at places that are computed", LINUX),
    ("cdist pdist", "distances of this kind", "use (a[:, None] - b).abs().sum(-1)"),
    ("pow", "power of such a kind", "use (x.log() * y).exp()"),
    ("matrix_exp", "linear algebra (matrix_exp)", LINUX),
    ("embedding_bag", "embedding bag of this kind", "use Embedding, and .amax(1), or times the weights and .sum(1)"),
)
_CURES = {name: (words, cure) for names, words, cure in _TABLE for name in names.split()}
# Of layers, and the functions beside them, that PyTorch composes of operators which do not tell what they are for.
_LAYERS = {
    "_SpectralNorm": ("spectral norm", "take it off, with nn.utils.parametrize.remove_parametrizations"),
    "_WeightNorm": ("weight norm", "take it off, with nn.utils.parametrize.remove_parametrizations"),
    "_Orthogonal": ("orthogonal weights", "take it off, with nn.utils.parametrize.remove_parametrizations"),
    "FractionalMaxPool2d fractional_max_pool2d FractionalMaxPool3d fractional_max_pool3d": (
        "pooling in random windows",
        "use MaxPool2d or MaxPool3d",
    ),
    "RReLU rrelu": ("random slopes", "use LeakyReLU"),
    "cumprod": ("running product", "multiply the slices, as x[:, 0] * x[:, 1]"),
}
_BY_LAYER = {name: found for names, found in _LAYERS.items() for name in names.split()}


def cure(kind: str, layer: str, text: str) -> tuple[str, str] | None:
    """What the firmware lacks in words, and what to write instead.

    ``kind`` is of the operator, ``layer`` the class of its module, ``text`` the expression that it comes from.
    """
    named = next((_BY_LAYER[name] for name in (layer, *re.findall(r"\w+", text)) if name in _BY_LAYER), None)
    if named is None and kind.startswith("linalg_") and kind != "linalg_vector_norm":
        return f"linear algebra ({kind.removeprefix('linalg_').removesuffix('_ex')})", LINUX
    return named or _CURES.get(kind)
