#!/usr/bin/env python3
"""Writes schemas.json: the strict schemas of the kinds that our manifests use.

    python3 -m venv VENV && VENV/bin/pip install kubernetes-validate \
        kubeflow-trainer-api && VENV/bin/python tests/kubernetes/make_schemas.py

The two packages have 120 MB; the file has what the tests need of them. A field
that is not in a schema is an error, in contrast to what both packages do by
default.
"""

import json
import pathlib
import re

import kubeflow_trainer_api.models as trainer
import kubernetes_validate

KUBERNETES = "1.34.0"
CORE_KINDS = {
    "v1/ConfigMap": "io.k8s.api.core.v1.ConfigMap",
    "v1/PersistentVolumeClaim": "io.k8s.api.core.v1.PersistentVolumeClaim",
    "v1/Pod": "io.k8s.api.core.v1.Pod",
    "v1/Secret": "io.k8s.api.core.v1.Secret",
    "networking.k8s.io/v1/NetworkPolicy":
        "io.k8s.api.networking.v1.NetworkPolicy",
    "policy/v1/PodDisruptionBudget":
        "io.k8s.api.policy.v1.PodDisruptionBudget",
}
TRAINER_KINDS = {
    "jobset.x-k8s.io/v1alpha2/JobSet": "JobsetV1alpha2JobSet",
    "trainer.kubeflow.org/v1alpha1/ClusterTrainingRuntime":
        "TrainerV1alpha1ClusterTrainingRuntime",
    "trainer.kubeflow.org/v1alpha1/TrainJob": "TrainerV1alpha1TrainJob",
}
# The kinds of the Prometheus Operator, which neither package has: the fields that
# the manifests use, from the operator's API reference.
TEXT = {"type": "string"}
LABELS = {"type": "object", "additionalProperties": TEXT}


def closed(required=(), **properties):
    return {"type": "object", "properties": properties,
            "required": list(required), "additionalProperties": False}


MONITOR_KINDS = {"monitoring.coreos.com/v1/PodMonitor": "PodMonitor"}
MONITOR_DEFINITIONS = {"PodMonitor": closed(
    ["apiVersion", "kind", "metadata", "spec"], apiVersion=TEXT, kind=TEXT,
    metadata=closed(["name"], name=TEXT, namespace=TEXT, labels=LABELS),
    spec=closed(
        ["selector", "podMetricsEndpoints"],
        selector=closed(["matchLabels"], matchLabels=LABELS),
        podMetricsEndpoints={"type": "array", "items": closed(
            ["port"], port=TEXT, interval=TEXT,
            scheme={"type": "string", "enum": ["http", "https"]},
            honorLabels={"type": "boolean"},
            relabelings={"type": "array", "items": closed(
                ["sourceLabels"], separator=TEXT, targetLabel=TEXT,
                sourceLabels={"type": "array", "items": TEXT})},
            tlsConfig=closed(
                ["ca"], serverName=TEXT,
                ca=closed(["secret"], secret=closed(
                    ["name", "key"], name=TEXT, key=TEXT))))}))}
# What a schema says beyond the words that validate.py knows.
KEPT = ("$ref", "type", "properties", "required", "additionalProperties",
        "items", "enum", "anyOf", "oneOf")


def core_definitions():
    folder = (pathlib.Path(kubernetes_validate.__file__).parent /
              "kubernetes-json-schema" / f"v{KUBERNETES}-local-strict")
    return json.loads((folder / "_definitions.json").read_text())["$defs"]


def core_name(name, core):
    """IoK8sApiBatchV1JobSpec -> io.k8s.api.batch.v1.JobSpec, if it exists."""
    words = re.sub("[^a-z0-9]", "", name.lower())
    for candidate in core:
        if re.sub("[^a-z0-9]", "", candidate.lower()) == words:
            return candidate
    return None


def reduced(schema, rename):
    """Returns `schema` without texts; `rename` maps the names of references."""
    if isinstance(schema, list):
        return [reduced(item, rename) for item in schema]
    if not isinstance(schema, dict):
        return schema
    result = {}
    for key in KEPT:
        if key not in schema:
            continue
        value = schema[key]
        if key == "$ref":
            result[key] = rename(value.rsplit("/", 1)[1])
        elif key == "properties":
            result[key] = {name: reduced(of, rename)
                           for name, of in value.items()}
        elif key in ("items", "additionalProperties", "anyOf", "oneOf"):
            result[key] = reduced(value, rename)
        else:
            result[key] = value
    if "properties" in result:
        result.setdefault("additionalProperties", False)
    return result


def references(schema):
    if isinstance(schema, list):
        for item in schema:
            yield from references(item)
    elif isinstance(schema, dict):
        for key, value in schema.items():
            if key == "$ref":
                yield value
            else:
                yield from references(value)


def main():
    core = core_definitions()
    everything = {name: reduced(schema, lambda ref: ref)
                  for name, schema in core.items()}
    for model in TRAINER_KINDS.values():
        whole = getattr(trainer, model).model_json_schema(by_alias=True)
        named = dict(whole.pop("$defs", {}), **{model: whole})
        rename = lambda ref: core_name(ref, core) or ref
        for name, schema in named.items():
            if core_name(name, core) is None:
                everything[name] = reduced(schema, rename)
    everything.update(MONITOR_DEFINITIONS)
    kinds = dict(CORE_KINDS, **TRAINER_KINDS, **MONITOR_KINDS)
    used, waiting = {}, list(kinds.values())
    while waiting:
        name = waiting.pop()
        if name not in used:
            used[name] = everything[name]
            waiting.extend(references(used[name]))
    text = json.dumps({"kinds": kinds, "definitions": used}, sort_keys=True,
                      separators=(",", ":"))
    # One definition on a line, so that a change can be read.
    text = re.sub(r'("(?:[A-Z]\w+|io\.[\w.]+)":\{)', r"\n\1", text) + "\n"
    pathlib.Path(__file__).with_name("schemas.json").write_text(text)


if __name__ == "__main__":
    main()
