"""A JSON schema from an example of what it should describe."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

_NAMES = {bool: "boolean", int: "integer", float: "number", str: "string", type(None): "null"}
_ONE_OF_EACH = ("null", "boolean", "integer", "number", "string", "array", "object")


def schema_of(value: Any) -> dict[str, Any]:
    """What the value matches: the types of all that is in it. An object has its keys and no others; an array has any number of
    items like those there; an empty one holds anything. Keys that only some objects of an array have are optional."""
    if isinstance(value, dict):
        if not value:
            return {"type": "object"}
        properties = {key: schema_of(item) for key, item in value.items()}
        return {
            "type": "object",
            "properties": properties,
            "required": list(properties),
            "additionalProperties": False,
        }
    if isinstance(value, list):
        return (
            {"type": "array", "items": _merge_schemas([schema_of(item) for item in value])}
            if value
            else {"type": "array"}
        )
    return {"type": _NAMES[type(value)]}


def _merge_schemas(schemas: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What matches whatever one of them matches."""
    kinds: dict[str, list[dict[str, Any]]] = {}
    for schema in (one for given in schemas for one in given.get("anyOf", [given])):
        for kind in [schema["type"]] if isinstance(schema["type"], str) else schema["type"]:
            kinds.setdefault(kind, []).append(schema)
    if "number" in kinds:
        kinds.pop("integer", None)
    each = [_of_one_kind(kind, kinds[kind]) for kind in _ONE_OF_EACH if kind in kinds]
    if len(each) == 1:
        return each[0]
    if all(len(one) == 1 for one in each):
        return {"type": [one["type"] for one in each]}
    return {"anyOf": each}


def _of_one_kind(kind: str, schemas: Sequence[dict[str, Any]]) -> dict[str, Any]:
    if kind == "array":
        items = [schema["items"] for schema in schemas if "items" in schema]
        return {"type": "array", "items": _merge_schemas(items)} if items else {"type": "array"}
    if kind != "object":
        return {"type": kind}
    if any("properties" not in schema for schema in schemas):
        return {"type": "object"}
    keys = dict.fromkeys(key for schema in schemas for key in schema["properties"])
    return {
        "type": "object",
        "properties": {
            key: _merge_schemas([schema["properties"][key] for schema in schemas if key in schema["properties"]])
            for key in keys
        },
        "required": [key for key in keys if all(key in schema["required"] for schema in schemas)],
        "additionalProperties": False,
    }
