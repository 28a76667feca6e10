"""``quantization_config`` of a ``config.json`` → a note on how the file is stored, in the names of ``precision``."""

from __future__ import annotations

from typing import Any

from runner.config.errors import ConfigError
from runner.estimate.config_file import Fields

_METHODS = {"fp8": "float8", "fbgemm_fp8": "float8", "mxfp4": "mxfp4"}
_BY_GROUP = ("awq", "gptq")
_FORMATS = {
    "float-quantized": "float8",
    "naive-quantized": "float8",
    "int-quantized": "int8_w8a8",
    "nvfp4-pack-quantized": "nvfp4",
}
"""Formats of compressed-tensors."""


def notes(fields: Fields) -> list[str]:
    """What to set to estimate the file as it is stored; nothing where it is not quantised. ``ConfigError`` for a kind
    that is not known."""
    section = fields.get("quantization_config")
    if section is None:
        return []
    known = ", ".join((*_METHODS, *_BY_GROUP, "compressed-tensors"))
    if not isinstance(section, dict):
        raise fields.wrong("quantization_config", f"an object with quant_method, one of {known}")
    method = section.get("quant_method")
    if not isinstance(method, str):
        raise ConfigError(f"{fields.file}: quantization_config.quant_method is missing: one of {known}")
    if method in _METHODS:
        stored = _METHODS[method]
    elif method in _BY_GROUP:
        stored = _grouped(fields, section)
    elif method == "compressed-tensors":
        stored = _compressed(fields, section)
    else:
        raise _wrong(fields, "quant_method", method, f"one of {known}")
    return [
        f"the file's linear layers are stored as {stored} ({method}): "
        f"estimate.weights={stored} estimates it as it is stored"
    ]


def _grouped(fields: Fields, section: dict[str, Any]) -> str:
    """AWQ and GPTQ: packed integers with a 16-bit scale and a packed zero for each group."""
    bits = section.get("bits", section.get("w_bit"))
    group = section.get("group_size", section.get("q_group_size"))
    if type(bits) is not int or bits not in (2, 3, 4, 8):
        raise _wrong(fields, "bits", bits, "2, 3, 4 or 8")
    if type(group) is not int or not 1 <= group <= 65536:
        raise _wrong(fields, "group_size", group, "1 to 65536")
    return f"int{bits}_g{group}_zp"


def _compressed(fields: Fields, section: dict[str, Any]) -> str:
    stored = section.get("format")
    if not isinstance(stored, str) or stored not in _FORMATS:
        raise _wrong(fields, "format", stored, f"one of {', '.join(_FORMATS)}")
    return _FORMATS[stored]


def _wrong(fields: Fields, key: str, value: Any, allowed: str) -> ConfigError:
    return ConfigError(f"{fields.file}: quantization_config.{key}={str(value)[:80]!r}: {allowed}")
