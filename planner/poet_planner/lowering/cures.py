# SPDX-License-Identifier: Apache-2.0
"""What to write instead of what the firmware lacks.

`tests/planner/lowering/test_cures.py` plans each of these.
"""

from __future__ import annotations

import re

LINUX = "train it on a Linux board"

# Operators' names without what tells forward from backward; what people call them, if by another word; what to write.
_TABLE = (
    ("topk sort argsort median kthvalue mode", "order of elements", "use the greatest, a mean or a softmax instead"),
    ("argmax argmin", "place of the greatest", "use a softmax of the scores instead"),
    ("max min amax amin", "greatest along an axis", "use F.adaptive_max_pool1d(x, 1) along the last axis"),
    ("cumsum", "running sum", "multiply by a constant triangle, as x @ torch.ones(n, n).triu()"),
    ("cumprod prod", "product along an axis", "multiply the slices, as x[:, 0] * x[:, 1]"),
    ("flip", "reversal", "multiply by a matrix of zeros and ones from register_buffer"),
    ("roll", "roll", "use torch.cat([x[:, -k:], x[:, :-k]], 1)"),
    ("index index_select gather take", "choice by an index", "multiply by F.one_hot(index, n).float(), or its .T"),
    (
        "index_add index_put scatter scatter_add scatter_reduce",
        "writing by an index",
        "multiply by F.one_hot(index, n).float(), or its .T",
    ),
    (
        "fft_r2c fft_c2c fft_c2r",
        "Fourier transform",
        "multiply by matrices of cosines and sines from register_buffer",
    ),
    ("tril triu", "triangle of a matrix", "multiply by a mask, as torch.ones(n, n).triu() from register_buffer"),
    ("diagonal diagonal_copy diag_embed", "diagonal", "multiply by an identity from register_buffer, and sum"),
    ("unfold", "windows that overlap", "use torch.stack of slices"),
    ("im2col col2im", "unfolding of images", "use F.conv2d with an identity from register_buffer for its weight"),
    ("copy new_empty", "writing into a part of a tensor", "use torch.cat of the parts, or F.pad"),
    (
        "empty empty_like",
        "tensor that begins without numbers",
        "begin with torch.zeros; draw random numbers with the batch, as one more input",
    ),
    (
        "reflection_pad1d reflection_pad2d reflection_pad3d replication_pad1d replication_pad2d replication_pad3d",
        "padding in this mode",
        "pad with zeros, or use torch.cat of the parts",
    ),
    ("constant_pad_nd", "padding with another number than zero", "use F.pad(x - number, …) + number"),
    (
        "upsample_nearest1d upsample_nearest2d upsample_linear1d upsample_bilinear2d upsample_bicubic2d",
        "interpolation of this kind",
        "use mode='nearest' and a whole scale_factor",
    ),
    ("pixel_shuffle pixel_unshuffle channel_shuffle", "shuffle", "use .reshape(…).permute(…).reshape(…)"),
    ("trilinear", "bilinear layer", "use nn.Linear on (a[:, :, None] * b[:, None]).flatten(1)"),
    ("cdist euclidean_dist", "distances", "use ((a[:, None] - b) ** 2).sum(-1)"),
    ("max_unpool2d", "unpooling", "use Upsample(scale_factor=2), or ConvTranspose2d"),
    (
        "max_pool3d_with_indices avg_pool3d adaptive_avg_pool3d adaptive_max_pool3d",
        "pooling of volumes",
        "pool planes, with depth among the channels",
    ),
    ("embedding_bag", "embedding bag", "use Embedding, and .sum(1) or .mean(1)"),
    ("multi_margin_loss", "margin loss of classes", "use CrossEntropyLoss"),
    ("multilabel_margin_loss", "margin loss of labels", "use BCEWithLogitsLoss"),
)
_CURES = {name: (words, cure) for names, words, cure in _TABLE for name in names.split()}
# Of layers, and the functions beside them, that PyTorch composes of operators which do not tell what they are for.
_LAYERS = {
    "_SpectralNorm": ("spectral norm", "take it off, with nn.utils.parametrize.remove_parametrizations"),
    "_WeightNorm": ("weight norm", "take it off, with nn.utils.parametrize.remove_parametrizations"),
    "_Orthogonal": ("orthogonal weights", "take it off, with nn.utils.parametrize.remove_parametrizations"),
    "FractionalMaxPool2d fractional_max_pool2d": ("pooling in random windows", "use MaxPool2d"),
    "RReLU rrelu": ("random slopes", "use LeakyReLU"),
    "LocalResponseNorm local_response_norm": ("norm over neighbouring channels", "use GroupNorm"),
}
_BY_LAYER = {name: found for names, found in _LAYERS.items() for name in names.split()}


def cure(kind: str, layer: str, text: str) -> tuple[str, str] | None:
    """What the firmware lacks in words, and what to write instead.

    ``kind`` is of the operator, ``layer`` the class of its module, ``text`` the expression that it comes from.
    """
    named = next((_BY_LAYER[name] for name in (layer, *re.findall(r"\w+", text)) if name in _BY_LAYER), None)
    if named is None and kind.startswith("linalg_") and kind != "linalg_vector_norm":
        return kind.removeprefix("linalg_").removesuffix("_ex"), LINUX
    return named or _CURES.get(kind)
