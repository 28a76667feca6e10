"""How numbers are stored: bits per element with scales and zeros, and the arithmetic that reads them.

Bits follow from the layout of a block: 8 · bytes of a block / elements of a block. What lies outside the blocks is left
out where it is a hundredth of a bit or less: one scale for each tensor, for each output channel of a linear layer
(16 bits over thousands of elements) or for each 128 × 128 tile (0.002 bits), and the column order of GPTQ.
"""

from __future__ import annotations

import re

from runner.config.errors import ConfigError, choose_from
from runner.estimate.model import Precision

WEIGHT_ONLY = "float16"
"""Weights that are widened before use are multiplied in 16 bits. float16, not bfloat16, because every GPU has it; where
a GPU has both, their peaks are equal."""

LATENT_CACHE = "fp8_ds_mla"
"""A layout that only a KV cache of latent attention has."""

_PLAIN = {
    "float32": (32.0, "float32"),
    "float16": (16.0, "float16"),
    "bfloat16": (16.0, "bfloat16"),
    "float8": (8.0, "float8"),
    "float8_w8a16": (8.0, WEIGHT_ONLY),
    "int8": (8.0, WEIGHT_ONLY),
    "int8_w8a8": (8.0, "int8"),
}
"""Name → bits, arithmetic. ``float8`` and ``int8_w8a8`` quantise the activations too; ``int8`` and ``float8_w8a16``
only the weights. Scales: one for each tensor or output channel."""

_BLOCKS = {
    # FP4 e2m1 with one 8-bit power of two for 32 elements (OCP Microscaling Formats 1.0)
    "mxfp4": (32, 17, WEIGHT_ONLY),
    "mxfp4_w4a4": (32, 17, "float4"),
    # FP4 e2m1 with one FP8 e4m3 scale for 16 elements; its one float32 for each tensor is left out
    "nvfp4": (16, 9, WEIGHT_ONLY),
    "nvfp4_w4a4": (16, 9, "float4"),
    # GGML blocks of 32: a float16 scale (and a float16 minimum in the _1 forms), high bits of 5-bit values in 4 bytes
    "q4_0": (32, 2 + 16, WEIGHT_ONLY),
    "q4_1": (32, 4 + 16, WEIGHT_ONLY),
    "q5_0": (32, 2 + 4 + 16, WEIGHT_ONLY),
    "q5_1": (32, 4 + 4 + 16, WEIGHT_ONLY),
    "q8_0": (32, 2 + 32, WEIGHT_ONLY),
    "iq4_nl": (32, 2 + 16, WEIGHT_ONLY),
    # GGML super-blocks of 256: float16 scale(s), packed scales of the sub-blocks, low bits, high bits
    "q2_k": (256, 4 + 16 + 64, WEIGHT_ONLY),
    "q3_k": (256, 2 + 12 + 64 + 32, WEIGHT_ONLY),
    "q4_k": (256, 4 + 12 + 128, WEIGHT_ONLY),
    "q5_k": (256, 4 + 12 + 128 + 32, WEIGHT_ONLY),
    "q6_k": (256, 2 + 16 + 128 + 64, WEIGHT_ONLY),
    "iq4_xs": (256, 2 + 2 + 4 + 128, WEIGHT_ONLY),
    # A KV cache of latent attention (512 + 64 elements): float8 latent with four float32 scales, bfloat16 rotary part
    LATENT_CACHE: (576, 512 + 16 + 128, "bfloat16"),
}
"""Name → elements of a block, bytes of a block, arithmetic."""

_ALIASES = {
    "fp32": "float32",
    "fp16": "float16",
    "bf16": "bfloat16",
    "fp8": "float8",
    "f32": "float32",
    "f16": "float16",
    "awq": "int4_g128_zp4",
    "gptq": "int4_g128_zp4",
    "w8a16": "int8_g128_s32",
    "w4a16": "int4_g128_s32",
}
"""AWQ and GPTQ checkpoints hold a 16-bit scale and a packed 4-bit zero for 128 weights, GPTQ also where it is
symmetric. ``w8a16`` and ``w4a16``, as ``kernel=mini_llm`` calls them, have a 32-bit scale for 128 weights."""

_GROUPED = re.compile(r"int([2-8])_g([1-9][0-9]{0,4})(_s32)?(_zp(4|8|16)?)?")
_GROUPED_HELP = (
    "int<2 to 8>_g<group> (a 16-bit scale for each group; _s32: a 32-bit one; _zp: a zero of as many bits as the "
    "weight; _zp4, _zp8, _zp16: a zero of that many), e.g. int4_g128, int4_g128_zp, int8_g64_s32"
)

NAMES = (*_PLAIN, *_BLOCKS, *_ALIASES)
"""Every fixed name; grouped integers come beside them."""


def of(name: str) -> Precision:
    """The precision called ``name``; aliases give the precision they stand for. ``ConfigError`` names what there is.

    A grouped integer of b bits with groups of g elements takes b + scale / g + zero / g bits: 4.125 for ``int4_g128``,
    4.15625 with a 4-bit zero, 4.25 with a 16-bit one. A KV cache with one scale for each token and head is grouped by
    the head size: ``int8_g128`` for heads of 128, ``int8_g128_s32`` if that scale has 32 bits.
    """
    lowered = name.lower()
    key = _ALIASES.get(lowered, lowered)
    if key in _PLAIN:
        bits, compute = _PLAIN[key]
        return Precision(key, bits, compute)
    if key in _BLOCKS:
        elements, size, compute = _BLOCKS[key]
        return Precision(key, 8 * size / elements, compute)
    match = _GROUPED.fullmatch(key)
    if match is None:
        raise ConfigError(f"precision '{name}': {choose_from(lowered, NAMES)}; or {_GROUPED_HELP}")
    width, group, wide, zero, zero_bits = match.groups()
    beside = (32 if wide else 16) + (int(zero_bits or width) if zero else 0)
    written = f"_zp{zero_bits or width}" if zero else ""
    return Precision(f"int{width}_g{group}{wide or ''}{written}", int(width) + beside / int(group), WEIGHT_ONLY)
