"""Derives the pods of a JobSet, as the controllers and the kubelet do."""

import copy
import re


def jobs(jobset):
    """Returns the replicated jobs by name."""
    return {job["name"]: job for job in jobset["spec"]["replicatedJobs"]}


def pod_count(job):
    return job["replicas"] * job["template"]["spec"]["completions"]


def make_pod(jobset, job, index):
    """Returns the pod `index` of the first Job of the replicated job."""
    name = jobset["metadata"]["name"]
    template = copy.deepcopy(job["template"]["spec"]["template"])
    host = f"{name}-{job['name']}-0-{index}"
    labels = dict(template.get("metadata", {}).get("labels", {}))
    labels["jobset.sigs.k8s.io/jobset-name"] = name
    labels["jobset.sigs.k8s.io/replicatedjob-name"] = job["name"]
    spec = template["spec"]
    spec["hostname"] = host
    network = jobset["spec"].get("network", {})
    spec["subdomain"] = network.get("subdomain", name)
    for container in spec["containers"]:
        container.setdefault("env", []).append(
            {"name": "JOB_COMPLETION_INDEX", "value": str(index)})
        _expand(container, labels)
    return {"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": host, "labels": labels}, "spec": spec}


def _expand(container, labels):
    """Replaces references in the container's environment and arguments."""
    values = {}
    for variable in container["env"]:
        if "valueFrom" in variable:
            field = variable.pop("valueFrom")["fieldRef"]["fieldPath"]
            label = re.fullmatch(r"metadata\.labels\['(.*)'\]", field)[1]
            variable["value"] = labels[label]
        values[variable["name"]] = variable["value"]
    container["args"] = [
        re.sub(r"\$\((\w+)\)", lambda found: values[found[1]], argument)
        for argument in container["args"]]


def address(pod):
    """Returns the name under which other pods find the pod."""
    return f"{pod['spec']['hostname']}.{pod['spec']['subdomain']}"
