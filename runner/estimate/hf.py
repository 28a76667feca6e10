"""A Hugging Face ``config.json`` → the ``model`` section.

Every key is asked for by the model type's own function (``hf_types``), is known to leave the sizes alone, or becomes a
note.
"""

from __future__ import annotations

from pathlib import Path

from runner.config.errors import ConfigError, choose_from
from runner.config.schema import Model
from runner.estimate import architecture, config_file, hf_rope, quantised
from runner.estimate.config_file import Fields
from runner.estimate.hf_types import IRRELEVANT, TYPES

_CLASSES = {
    "LlamaForCausalLM": "llama",
    "MistralForCausalLM": "mistral",
    "MixtralForCausalLM": "mixtral",
    "Qwen2ForCausalLM": "qwen2",
    "Qwen2MoeForCausalLM": "qwen2_moe",
    "Qwen3ForCausalLM": "qwen3",
    "Qwen3MoeForCausalLM": "qwen3_moe",
    "DeepseekV2ForCausalLM": "deepseek_v2",
    "DeepseekV3ForCausalLM": "deepseek_v3",
    "GPT2LMHeadModel": "gpt2",
    "GptOssForCausalLM": "gpt_oss",
}
"""Name of the class that runs the model → model type."""


def read(path: str | Path) -> Model:
    """The model that ``path`` (a ``config.json`` or its folder) describes, with ``notes`` on what was assumed.

    ``ConfigError`` names the file, the key, its value and what would be accepted.
    """
    path = Path(path)
    if path.is_dir():
        path = path / "config.json"
    fields = config_file.load(path)
    for key in ("text_config", "llm_config", "language_config", "thinker_config"):
        if fields.get(key) is not None:
            raise ConfigError(
                f"{fields.file}: {key}: the decoder of a multimodal model is a section of its own here: save that "
                f"section as a file, its model_type one of {', '.join(TYPES)}"
            )
    kind = _kind(fields)
    fields.only("is_encoder_decoder", False, "only decoders are estimated")
    fields.only("add_cross_attention", False, "only decoders are estimated")
    figures = {**TYPES[kind](fields), **hf_rope.figures(fields, kind)}
    fields.notes += quantised.notes(fields)
    model = Model(
        name=_name(path),
        title=_name(path),
        source=f"{path.name} of type {kind}",
        config_json=str(path),
        notes=fields.notes + fields.unasked(IRRELEVANT),
        **figures,
    )
    try:
        architecture.of(model)
    except ConfigError as error:
        raise ConfigError(f"{fields.file}: as read, {error}") from error
    return model


def _name(path: Path) -> str:
    """The folder's name for a plain ``config.json``, else the file's."""
    return path.resolve().parent.name if path.stem == "config" else path.stem


def _kind(fields: Fields) -> str:
    """The model type, or where that is a name of its own the one whose class it uses."""
    kind, classes = fields.text("model_type"), fields.items("architectures", str)
    by_class = next((_CLASSES[name] for name in classes if name in _CLASSES), "")
    if kind in TYPES:
        if by_class and by_class != kind:
            raise fields.wrong("architectures", f"the class of model_type={kind}, or another model_type")
        return kind
    if by_class:
        fields.notes.append(
            f"model_type={kind or 'null'} is not known: read as {by_class}, whose class {classes[0]} the file names"
        )
        return by_class
    if not kind and not classes:
        raise fields.missing("model_type", f"one of {', '.join(TYPES)}")
    key, value = ("model_type", kind) if kind else ("architectures", classes[0])
    raise fields.wrong(key, choose_from(value, list(TYPES) if kind else list(_CLASSES)))
