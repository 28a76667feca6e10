"""The tokenizer that comes with a model's file: ``tokenizer.json`` beside safetensors, or the keys of a GGUF file.

Of GGUF's tokenizers byte-pair encoding over bytes is known (``tokenizer.ggml.model=gpt2``), with the ways of splitting
text that ``_SPLITS`` lists.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from runner.config.errors import choose_from
from runner.estimate import gguf_file, model_file
from runner.weights.errors import INSTALL, WeightsError, as_weights_error

if TYPE_CHECKING:
    from tokenizers import Tokenizer

SIZE_LIMIT = 64 << 20
"""Bytes of a ``tokenizer.json``; large ones have some ten million."""
_TEXTS = ("tokenizer.ggml.tokens", "tokenizer.ggml.merges")
_TYPES = "tokenizer.ggml.token_type"
_CONTROL, _USER = 3, 4
"""Entries of ``_TYPES``: a token that no text gives, and one that is taken whole."""

_WORDS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|"
_REST = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_SPLITS: dict[str, str] = {
    "default": "",
    "gpt-2": "",
    "smollm": r"\p{N}",
    "llama-bpe": _WORDS + r"\p{N}{1,3}" + _REST,
    "qwen2": _WORDS + r"\p{N}" + _REST,
}
"""``tokenizer.ggml.pre`` → the regular expression by which text is split first; GPT-2's own follows, or is all, where
this is empty or one class."""
_OWN = ("llama-bpe", "qwen2")
"""Those that do not split by GPT-2's expression as well."""


def load(path: Path) -> Tokenizer:
    """``WeightsError`` names the file and what is missing or not known."""
    try:
        import tokenizers  # noqa: F401
    except ImportError as error:
        raise WeightsError(f"{path}: text is turned into tokens by the tokenizers package: {INSTALL}") from error
    if model_file.is_gguf(path):
        return _of_gguf(path)
    return _of_json(model_file.config_of(path).with_name("tokenizer.json"))


def _of_json(path: Path) -> Tokenizer:
    from tokenizers import Tokenizer

    try:
        if not path.is_file():
            raise WeightsError(f"{path}: no such file: the tokenizer beside the weights; or give token ids, [1,2,3]")
        if path.stat().st_size > SIZE_LIMIT:
            raise WeightsError(f"{path}: larger than {SIZE_LIMIT} bytes: a tokenizer.json has some ten million")
        return Tokenizer.from_file(str(path))
    except WeightsError:
        raise
    except Exception as error:  # the package has no class of its own
        raise WeightsError(f"{path}: not a tokenizer.json: {error}") from error


def _of_gguf(path: Path) -> Tokenizer:
    with as_weights_error():
        values = gguf_file.load(path, (*_TEXTS, _TYPES)).values
    kind, split = values.get("tokenizer.ggml.model"), values.get("tokenizer.ggml.pre", "default")
    if kind != "gpt2":
        raise WeightsError(
            f"{path}: tokenizer.ggml.model={kind}: only gpt2 (byte-pair encoding) is known; give token ids, [1,2,3]"
        )
    if split not in _SPLITS:
        raise WeightsError(f"{path}: tokenizer.ggml.pre={split}: {choose_from(str(split), _SPLITS)}")
    words, merges = (_texts(path, values, key) for key in _TEXTS)
    vocabulary = {word: number for number, word in enumerate(words)}
    if len(vocabulary) < len(words):
        raise WeightsError(f"{path}: tokenizer.ggml.tokens: a token stands there twice")
    pairs = [_pair(path, merge, vocabulary) for merge in merges]
    made = _byte_pairs(path, vocabulary, pairs, str(split))
    _add_special(path, made, words, values.get(_TYPES, []))
    _add_start(path, made, words, values, default=split == "llama-bpe")
    return made


def _texts(path: Path, values: dict[str, Any], key: str) -> list[str]:
    found = values.get(key)
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
        raise WeightsError(f"{path}: {key}: a list of texts; give token ids, [1,2,3], where the file has none")
    return found


def _pair(path: Path, merge: str, vocabulary: dict[str, int]) -> tuple[str, str]:
    first, _, second = merge.partition(" ")
    if not {first, second, first + second} <= vocabulary.keys():
        raise WeightsError(f"{path}: tokenizer.ggml.merges: {merge!a:.80}: two tokens whose joint is one as well")
    return first, second


def _byte_pairs(path: Path, vocabulary: dict[str, int], pairs: list[tuple[str, str]], split: str) -> Tokenizer:
    from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

    try:
        # Llama 3 takes a word that is a token whole, whatever its merges say.
        made = Tokenizer(models.BPE(vocabulary, pairs, ignore_merges=split == "llama-bpe"))
    except Exception as error:  # the package has no class of its own
        raise WeightsError(f"{path}: tokenizer.ggml.tokens and merges: {error}") from error
    steps: list[Any] = [pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=split not in _OWN)]
    if _SPLITS[split]:
        steps.insert(0, pre_tokenizers.Split(Regex(_SPLITS[split]), "isolated"))
    made.pre_tokenizer = pre_tokenizers.Sequence(steps)
    made.decoder = decoders.ByteLevel()
    if split == "qwen2":
        made.normalizer = normalizers.NFC()
    return made


def _add_special(path: Path, made: Tokenizer, words: list[str], types: Any) -> None:
    """Makes control tokens and those of the user recognised whole in a text."""
    from tokenizers import AddedToken

    if not isinstance(types, list) or (types and len(types) != len(words)):
        raise WeightsError(f"{path}: {_TYPES}: a number for each of {len(words)} tokens")
    whole = [(word, kind) for word, kind in zip(words, types, strict=False) if kind in (_CONTROL, _USER)]
    made.add_special_tokens([AddedToken(word, normalized=False) for word, kind in whole if kind == _CONTROL])
    made.add_tokens([AddedToken(word, normalized=False) for word, kind in whole if kind == _USER])


def _add_start(path: Path, made: Tokenizer, words: list[str], values: dict[str, Any], default: bool) -> None:
    """Where the file says so, every text begins with its first token."""
    from tokenizers.processors import TemplateProcessing

    if not values.get("tokenizer.ggml.add_bos_token", default):
        return
    key = "tokenizer.ggml.bos_token_id"
    start = values.get(key)
    if type(start) is not int or not 0 <= start < len(words):
        raise WeightsError(f"{path}: {key}={start}: a token's number, 0 to {len(words) - 1}")
    made.post_processor = TemplateProcessing(single=[words[start], "$A"], special_tokens=[(words[start], start)])
