"""The HTTP interface as a page: what its description in OpenAPI says, as rows of tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

LIMITS = ("format", "minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems", "pattern", "default")
"""What is shown of the values of a field, beside its type."""


def operations(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Each operation with its inputs, and the fields of its answer, in the order of the groups.

    Parameters
    ----------
    document
        The description in OpenAPI.

    Returns
    -------
    list of dict
        With ``tag``, ``method``, ``path``, ``summary``, ``description``, ``inputs``, ``answers`` and ``answer``.
    """
    found = []
    for path, methods in document["paths"].items():
        for method, each in methods.items():
            inputs = [_row(given["name"], given["schema"], given) for given in each.get("parameters", ())]
            inputs += _fields(document, each.get("requestBody", {}))
            answers = {status: answer["description"] for status, answer in each["responses"].items()}
            good = next(answer for status, answer in each["responses"].items() if status < "300")
            shown = {name: each.get(name, "") for name in ("summary", "description")}
            shown |= {"tag": each["tags"][0], "method": method.upper(), "path": path}
            found.append(shown | {"inputs": inputs, "answers": answers, "answer": _fields(document, good)})
    return sorted(found, key=lambda each: (each["tag"] != "predictions and outcomes", each["tag"]))


def _fields(document: Mapping[str, Any], body: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The fields of a body in JSON."""
    return list(_inside(document, body.get("content", {}).get("application/json", {}).get("schema", {}), ""))


def _inside(document: Mapping[str, Any], schema: Mapping[str, Any], where: str) -> Iterator[dict[str, Any]]:
    schema = _resolved(document, schema)
    for name, given in schema.get("properties", {}).items():
        field = _resolved(document, given)
        yield _row(where + name, field, {**field, "required": name in schema.get("required", ())})
        yield from _inside(document, field, f"{where}{name}.")
        yield from _inside(document, field.get("items", {}), f"{where}{name}[].")


def _resolved(document: Mapping[str, Any], schema: Mapping[str, Any]) -> Mapping[str, Any]:
    place = schema.get("$ref")
    return schema if place is None else document["components"]["schemas"][place.rsplit("/", 1)[1]]


def _row(name: str, schema: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    kinds = schema.get("type") or [each.get("type", "object") for each in schema.get("anyOf", ())]
    limits = [f"{limit} {schema[limit]}" for limit in LIMITS if schema.get(limit) is not None]
    values = [" or ".join(map(str, schema["enum"]))] if "enum" in schema else []
    return {
        "name": name, "required": bool(more.get("required")), "description": more.get("description", ""),
        "type": " or ".join([kinds] if isinstance(kinds, str) else kinds), "limits": ", ".join(values + limits),
    }  # fmt: skip
