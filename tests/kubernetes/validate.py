"""Checks objects of Kubernetes against schemas.json, strictly."""

import json
import pathlib

_SCHEMAS = json.loads(
    pathlib.Path(__file__).with_name("schemas.json").read_text())
_TYPES = {"object": dict, "array": list, "string": str, "boolean": bool,
          "null": type(None)}


def errors(node):
    """Returns a list of what is wrong with the object: "path: reason"."""
    kind = f"{node.get('apiVersion')}/{node.get('kind')}"
    if kind not in _SCHEMAS["kinds"]:
        return [f"unknown kind {kind}"]
    return list(_check({"$ref": _SCHEMAS["kinds"][kind]}, node,
                       node["kind"]))


def _has_type(node, name):
    if name == "integer":
        return isinstance(node, int) and not isinstance(node, bool)
    if name == "number":
        return isinstance(node, (int, float)) and not isinstance(node, bool)
    return isinstance(node, _TYPES[name])


def _check(schema, node, path):
    if "$ref" in schema:
        yield from _check(_SCHEMAS["definitions"][schema["$ref"]], node, path)
        return
    for choices in (schema.get("anyOf"), schema.get("oneOf")):
        if choices:
            found = [list(_check(choice, node, path)) for choice in choices]
            if [] not in found:
                # Of the reasons, the one that is deepest in the object.
                yield max((f for fs in found for f in fs),
                          key=lambda f: f.index(":"))
            return
    names = schema.get("type", [])
    names = [names] if isinstance(names, str) else names
    if names and not any(_has_type(node, name) for name in names):
        yield f"{path}: {node!r} is not of type {' or '.join(names)}"
        return
    if "enum" in schema and node not in schema["enum"]:
        yield f"{path}: {node!r} is none of {schema['enum']}"
    if isinstance(node, list) and "items" in schema:
        for index, item in enumerate(node):
            yield from _check(schema["items"], item, f"{path}[{index}]")
    if not isinstance(node, dict):
        return
    for name in schema.get("required", []):
        if name not in node:
            yield f"{path}: {name} is missing"
    properties = schema.get("properties", {})
    others = schema.get("additionalProperties", True)
    for name, value in node.items():
        if name in properties:
            yield from _check(properties[name], value, f"{path}.{name}")
        elif others is False:
            yield f"{path}: unknown field {name}"
        elif isinstance(others, dict):
            yield from _check(others, value, f"{path}.{name}")
