#!/usr/bin/env python3
"""Checks deploy/kubernetes with the packages that schemas.json comes from.

    python3 -m venv VENV && VENV/bin/pip install kubernetes-validate \
        kubeflow-trainer-api && \
        VENV/bin/python tests/kubernetes/check_with_packages.py

Not part of CI, because the packages have 120 MB. kubernetes-validate checks the
objects of Kubernetes itself, and the Jobs in the JobSets. kubeflow-trainer-api
reads the others; it drops unknown fields silently, so what it has read is
compared with the file.
"""

import pathlib
import sys

import kubeflow_trainer_api.models as trainer
import kubernetes_validate

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import manifests_test  # pylint: disable=wrong-import-position
import make_schemas  # pylint: disable=wrong-import-position


def lost(before, after, path=""):
    """Yields the paths that are in `before` and not, or changed, in `after`."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key, value in before.items():
            if key not in after:
                yield f"{path}.{key}"
            else:
                yield from lost(value, after[key], f"{path}.{key}")
    elif isinstance(before, list) and isinstance(after, list):
        if len(before) != len(after):
            yield path
        for index, (one, other) in enumerate(zip(before, after)):
            yield from lost(one, other, f"{path}[{index}]")
    elif before != after and str(before) != str(after):
        yield path


def check_core(node):
    version = make_schemas.KUBERNETES.rsplit(".", 1)[0]
    kubernetes_validate.validate(node, version, strict=True)


def check(node):
    model = make_schemas.TRAINER_KINDS.get(
        f"{node['apiVersion']}/{node['kind']}")
    if model is None:
        check_core(node)
        return
    read = getattr(trainer, model).from_dict(node).to_dict()
    missing = list(lost(node, read))
    if missing:
        raise SystemExit(f"{node['kind']}: unknown fields {missing}")
    spec = node["spec"].get("template", node)["spec"]
    for job in spec.get("replicatedJobs", []):
        check_core(dict(job["template"], apiVersion="batch/v1", kind="Job",
                        metadata={"name": job["name"]}))


def main():
    count = 0
    for name in manifests_test.OVERLAYS:
        for node in manifests_test.overlay(name):
            check(node)
            count += 1
    for name in ("runtime", "trainjob"):
        check(manifests_test.kubeflow(name))
        count += 1
    print(f"{count} objects are valid")


if __name__ == "__main__":
    main()
