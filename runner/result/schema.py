"""The JSON Schema of the result document, made from the dataclasses and the docstrings of their fields.

``python -m runner.result.schema`` writes ``result.schema.json`` anew; a test fails when the file is behind.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import itertools
import json
import textwrap
import types
import typing
from enum import Enum
from pathlib import Path
from typing import Any, Union

from runner.result import model
from runner.result.document import write_text

PATH = Path(__file__).with_name("result.schema.json")


def schema() -> dict[str, Any]:
    """JSON Schema, draft 2020-12, of one ``result.json``."""
    definitions = {kind.__name__: _object(kind) for kind in _parts(model.Result)}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Result of one variant of one experiment",
        **_object(model.Result),
        "$defs": definitions,
    }


def main() -> None:
    """Writes the schema file."""
    write_text(PATH, text())
    print(f"wrote {PATH}")


def text() -> str:
    """The schema file's contents."""
    return json.dumps(schema(), indent=2, ensure_ascii=False) + "\n"


def _parts(kind: type[Any]) -> list[type[Any]]:
    """The dataclasses that a dataclass is made of, directly and through others, each once."""
    found: dict[type[Any], None] = {}
    for hint in typing.get_type_hints(kind).values():
        for part in (hint, *typing.get_args(hint)):
            if dataclasses.is_dataclass(part):
                found.setdefault(typing.cast("type[Any]", part))
                found.update(dict.fromkeys(_parts(typing.cast("type[Any]", part))))
    return list(found)


def _object(kind: type[Any]) -> dict[str, Any]:
    """The schema of one dataclass. Every field is written, so every field is required.

    Raises ``TypeError`` for a field without a docstring.
    """
    hints = typing.get_type_hints(kind)
    described = _docstrings(kind)
    properties = {}
    for name, hint in hints.items():
        if name not in described:
            raise TypeError(f"{kind.__name__}.{name} has no docstring: describe it in runner/result/model.py")
        properties[name] = {"description": described[name], **_type(hint)}
    if kind is model.Result:
        properties["schema_version"]["const"] = model.SCHEMA_VERSION
    return {
        "description": _first_line(kind),
        "type": "object",
        "properties": properties,
        "required": [f.name for f in dataclasses.fields(kind)],
        "additionalProperties": False,
    }


def _type(hint: Any) -> dict[str, Any]:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any:
        return {}
    if origin in (Union, types.UnionType):
        inner = _type(next(a for a in arguments if a is not type(None)))
        return {"type": [inner["type"], "null"]}
    if origin is list:
        return {"type": "array", "items": _type(arguments[0])}
    if origin is dict:
        return {"type": "object", "additionalProperties": _type(arguments[1])}
    if dataclasses.is_dataclass(hint):
        return {"$ref": f"#/$defs/{typing.cast(type[Any], hint).__name__}"}
    if isinstance(hint, type) and issubclass(hint, Enum):
        return {"enum": [member.value for member in hint]}
    names = {str: "string", bool: "boolean", int: "integer", float: "number"}
    return {"type": names[hint]}


def _first_line(kind: type[Any]) -> str:
    return inspect.cleandoc(kind.__doc__ or kind.__name__).splitlines()[0]


def _docstrings(kind: type[Any]) -> dict[str, str]:
    """Field name → the string literal that follows the field in the class's source."""
    body = typing.cast(ast.ClassDef, ast.parse(textwrap.dedent(inspect.getsource(kind))).body[0]).body
    found = {}
    for field, after in itertools.pairwise(body):
        is_text = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and is_text:
            literal = typing.cast(ast.Constant, typing.cast(ast.Expr, after).value).value
            found[field.target.id] = " ".join(str(literal).split())
    return found


if __name__ == "__main__":
    main()
