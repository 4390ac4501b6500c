"""Resolves a Kustomization as `kubectl kustomize` does.

Knows only what deploy/kubernetes uses, and refuses everything else, so that no
field of a kustomization.yaml is ignored.
"""

import copy
import pathlib

import yaml

KNOWN = {"apiVersion", "kind", "resources", "components", "patches",
         "configMapGenerator", "generatorOptions", "images"}


def load_documents(path):
    """Returns the documents of a YAML file."""
    return [d for d in yaml.safe_load_all(pathlib.Path(path).read_text())
            if d is not None]


def resolve(folder):
    """Returns the objects that the Kustomization in `folder` describes."""
    objects = []
    _apply(pathlib.Path(folder), "Kustomization", objects)
    return objects


def add_component(folder, objects):
    """Applies the Component in `folder` to `objects`."""
    _apply(pathlib.Path(folder), "Component", objects)


def _apply(folder, kind, objects):
    """Adds the objects of the Kustomization or Component to `objects`."""
    (config,) = load_documents(folder / "kustomization.yaml")
    _require(config.get("kind") == kind, f"{folder}: the kind is not {kind}")
    unknown = set(config) - KNOWN
    _require(not unknown, f"{folder}: unknown fields {sorted(unknown)}")
    for name in config.get("resources", []):
        path = folder / name
        if path.is_dir():
            _apply(path, "Kustomization", objects)
        else:
            objects.extend(load_documents(path))
    for generator in config.get("configMapGenerator", []):
        options = config.get("generatorOptions", {})
        _require(options == {"disableNameSuffixHash": True},
                 f"{folder}: generatorOptions must disable the hash")
        objects.append(_config_map(folder, generator))
    for name in config.get("components", []):
        _apply(folder / name, "Component", objects)
    for patch in config.get("patches", []):
        _patch(folder, patch, objects)
    for image in config.get("images", []):
        found = [_set_image(image, o) for o in objects]
        _require(any(found), f"{folder}: no image is {image['name']}")


def _config_map(folder, generator):
    _require(set(generator) == {"name", "files"},
             f"{folder}: a generator has fields other than name and files")
    return {"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": generator["name"]},
            "data": {pathlib.Path(f).name: (folder / f).read_text()
                     for f in generator["files"]}}


def _patch(folder, patch, objects):
    _require(set(patch) == {"target", "patch"} and
             set(patch["target"]) <= {"kind", "name"},
             f"{folder}: a patch needs a target (kind, name) and a patch")
    targets = [o for o in objects
               if all(patch["target"][key] == value for key, value in
                      [("kind", o["kind"]), ("name", o["metadata"]["name"])]
                      if key in patch["target"])]
    _require(targets, f"{folder}: no object is {patch['target']}")
    for operation in yaml.safe_load(patch["patch"]):
        for target in targets:
            _operate(operation, target)


def _operate(operation, target):
    """Applies one operation of a JSON patch (RFC 6902)."""
    kind, path = operation["op"], operation["path"]
    value = copy.deepcopy(operation.get("value"))
    parts = [p.replace("~1", "/").replace("~0", "~")
             for p in path.split("/")[1:]]
    parent = target
    for part in parts[:-1]:
        parent = parent[int(part) if isinstance(parent, list) else part]
    last = parts[-1]
    if isinstance(parent, list) and last != "-":
        last = int(last)
        _require(last < len(parent) or kind == "add", f"{path} does not exist")
    if kind == "add" and isinstance(parent, list):
        parent.insert(len(parent) if last == "-" else last, value)
        return
    _require(kind == "add" or isinstance(parent, list) or last in parent,
             f"{path} does not exist")
    if kind in ("add", "replace"):
        parent[last] = value
    elif kind == "remove":
        del parent[last]
    elif kind == "test":
        _require(parent[last] == value,
                 f"{path} is {parent[last]!r}, expected {value!r}")
    else:
        raise ValueError(f"unknown operation {kind}")


def _set_image(image, node):
    """Changes the image of all containers in `node`; True if there are any."""
    found = False
    if isinstance(node, list):
        found = any([_set_image(image, item) for item in node])
    elif isinstance(node, dict):
        for key, value in node.items():
            if key in ("containers", "initContainers"):
                for container in value:
                    if container["image"] == image["name"]:
                        container["image"] = "{}:{}".format(
                            image.get("newName", image["name"]),
                            image["newTag"])
                        found = True
            else:
                found = _set_image(image, value) or found
    return found


def _require(condition, message):
    if not condition:
        raise ValueError(message)
