#!/usr/bin/env python3
"""Tests of deploy/kubernetes: strict schemas, and that the parts fit.

    manifests_test.py [PROGRAM]

PROGRAM is `tributary`, whose help must describe every flag of the manifests.
"""

import copy
import pathlib
import re
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import kustomize  # pylint: disable=wrong-import-position
import pods  # pylint: disable=wrong-import-position
import validate  # pylint: disable=wrong-import-position

ROOT = pathlib.Path(__file__).parents[2] / "deploy" / "kubernetes"
OVERLAYS = ("cpu", "gpu", "tls")
PROGRAM = None


def overlay(name):
    return kustomize.resolve(ROOT / "overlays" / name)


def kubeflow(name):
    (document,) = kustomize.load_documents(ROOT / "kubeflow" / f"{name}.yaml")
    return document


def one(objects, kind):
    (found,) = [o for o in objects if o["kind"] == kind]
    return found


def runtime_as_jobset():
    """What Kubeflow Trainer makes of the runtime, for a TrainJob "licenses"."""
    jobset = copy.deepcopy(kubeflow("runtime")["spec"]["template"])
    jobset["metadata"] = {"name": "licenses"}
    node = pods.jobs(jobset)["node"]["template"]["spec"]
    count = kubeflow("trainjob")["spec"]["trainer"]["numNodes"]
    node["completions"] = node["parallelism"] = count
    return jobset


def all_jobsets():
    for name in OVERLAYS:
        yield name, one(overlay(name), "JobSet")
    yield "kubeflow", runtime_as_jobset()


def all_pods():
    for name, jobset in all_jobsets():
        for job in pods.jobs(jobset).values():
            pod = pods.make_pod(jobset, job, 0)
            (container,) = pod["spec"]["containers"]
            yield name, job["name"], pod["spec"], container


class SchemaTest(unittest.TestCase):

    def test_every_object_is_valid(self):
        for name in OVERLAYS:
            for node in overlay(name):
                self.assertEqual(validate.errors(node), [], name)
        for name in ("runtime", "trainjob"):
            self.assertEqual(validate.errors(kubeflow(name)), [], name)

    def test_every_pod_is_valid(self):
        for _, jobset in all_jobsets():
            for job in pods.jobs(jobset).values():
                pod = pods.make_pod(jobset, job, 0)
                self.assertEqual(validate.errors(pod), [])

    def test_every_file_belongs_to_an_overlay_or_to_kubeflow(self):
        files = {str(p.relative_to(ROOT)) for p in ROOT.rglob("*.yaml")}
        self.assertEqual(files, {
            "base/kustomization.yaml", "base/jobset.yaml", "base/volume.yaml",
            "base/disruption.yaml", "base/network.yaml",
            "components/tls/kustomization.yaml", "kubeflow/runtime.yaml",
            "kubeflow/trainjob.yaml", *(f"overlays/{name}/kustomization.yaml"
                                        for name in OVERLAYS)})

    def test_one_wrong_letter_anywhere_is_an_error(self):
        """Every key of every object is misspelled in turn."""
        objects = overlay("tls") + [kubeflow("runtime"), kubeflow("trainjob")]
        # Keys that users choose.
        free = re.compile(r"\.(labels|matchLabels|data|requests|limits)$")
        count = 0
        for node in objects:
            for path, parent, key in self.keys(node, ""):
                if free.search(path):
                    continue
                value = parent.pop(key)
                parent[key + "s"] = value
                name = re.escape(key)
                self.assertRegex(
                    "\n".join(validate.errors(node)),
                    rf"unknown kind |unknown field {name}s|{name} is missing",
                    f"{path}.{key}s")
                parent[key] = parent.pop(key + "s")
                count += 1
        self.assertGreater(count, 300)

    def keys(self, node, path):
        if isinstance(node, list):
            for index, item in enumerate(node):
                yield from self.keys(item, f"{path}[{index}]")
        elif isinstance(node, dict):
            for key in list(node):
                yield path, node, key
                yield from self.keys(node[key], f"{path}.{key}")

    def test_a_wrong_type_is_an_error(self):
        jobset = one(overlay("cpu"), "JobSet")
        jobset["spec"]["failurePolicy"]["maxRestarts"] = "3"
        (error,) = validate.errors(jobset)
        self.assertIn("JobSet.spec.failurePolicy.maxRestarts: '3'", error)

    def test_a_patch_of_nothing_is_an_error(self):
        jobset = {"kind": "JobSet", "metadata": {"name": "a"}, "args": ["x"]}
        for patch, message in [
                ("[{op: replace, path: /args/1, value: y}]", "does not exist"),
                ("[{op: replace, path: /arg, value: y}]", "does not exist"),
                ("[{op: test, path: /args/0, value: y}]", "expected 'y'")]:
            with self.assertRaisesRegex(ValueError, message):
                kustomize._patch("folder", {"target": {"kind": "JobSet"},
                                            "patch": patch}, [jobset])


class PodTest(unittest.TestCase):

    def test_pods_run_without_privileges(self):
        for name, job, spec, container in all_pods():
            with self.subTest(overlay=name, job=job):
                self.assertTrue(spec["securityContext"]["runAsNonRoot"])
                self.assertEqual(spec["securityContext"]["seccompProfile"],
                                 {"type": "RuntimeDefault"})
                self.assertFalse(spec["automountServiceAccountToken"])
                self.assertEqual(container["securityContext"], {
                    "allowPrivilegeEscalation": False,
                    "readOnlyRootFilesystem": True,
                    "capabilities": {"drop": ["ALL"]}})
                self.assertIn("memory", container["resources"]["limits"])

    def test_probes_ask_the_health_port(self):
        for name, job, _, container in all_pods():
            with self.subTest(overlay=name, job=job):
                self.assertIn("--health-listen=0.0.0.0:29500",
                              container["args"])
                for probe, service in [("startupProbe", None),
                                       ("livenessProbe", None),
                                       ("readinessProbe", "tributary.ready")]:
                    grpc = container[probe]["grpc"]
                    self.assertEqual(grpc["port"], 29500)
                    self.assertEqual(grpc.get("service"), service)

    def test_every_mount_has_a_volume(self):
        for name, job, spec, container in all_pods():
            with self.subTest(overlay=name, job=job):
                self.assertEqual({m["name"] for m in container["volumeMounts"]},
                                 {v["name"] for v in spec["volumes"]})
                # subPath would never be updated.
                self.assertFalse(any("subPath" in m
                                     for m in container["volumeMounts"]))

    def test_every_volume_has_a_source_in_the_overlay(self):
        for name in OVERLAYS:
            objects = overlay(name)
            jobset = one(objects, "JobSet")
            for job in pods.jobs(jobset).values():
                for volume in job["template"]["spec"]["template"]["spec"][
                        "volumes"]:
                    if "configMap" in volume:
                        self.assertEqual(
                            volume["configMap"]["name"],
                            one(objects, "ConfigMap")["metadata"]["name"])
                    if "persistentVolumeClaim" in volume:
                        self.assertEqual(
                            volume["persistentVolumeClaim"]["claimName"],
                            one(objects,
                                "PersistentVolumeClaim")["metadata"]["name"])

    def test_workers_connect_to_the_address_of_server_0(self):
        for name, jobset in all_jobsets():
            with self.subTest(overlay=name):
                all_jobs = pods.jobs(jobset)
                server = pods.make_pod(jobset, all_jobs["server"], 0)
                where = pods.address(server)
                arguments = server["spec"]["containers"][0]["args"]
                self.assertIn(f"--advertise={where}", arguments)
                self.assertIn("--listen=0.0.0.0:29400", arguments)
                for job in all_jobs.values():
                    pod = pods.make_pod(jobset, job, 0)
                    self.assertIn(f"--coordinator={where}:29400",
                                  pod["spec"]["containers"][0]["args"])

    def test_the_server_expects_the_workers_and_servers_that_there_are(self):
        for name in OVERLAYS:
            jobs = pods.jobs(one(overlay(name), "JobSet"))
            arguments = jobs["server"]["template"]["spec"]["template"]["spec"][
                "containers"][0]["args"]
            self.assertIn(f"--workers={pods.pod_count(jobs['worker'])}",
                          arguments)
            self.assertIn(f"--servers={pods.pod_count(jobs['server'])}",
                          arguments)

    def test_tls_leaves_nothing_in_plaintext(self):
        jobset = one(overlay("tls"), "JobSet")
        for job in pods.jobs(jobset).values():
            arguments = pods.make_pod(jobset, job, 0)["spec"]["containers"][0][
                "args"]
            self.assertNotIn("--insecure-network", arguments)
            self.assertIn("--tls-dir=/tls", arguments)
            self.assertIn("--token-file=/token/token", arguments)

    def test_the_program_knows_every_flag(self):
        if PROGRAM is None:
            self.skipTest("no program was given")
        for name, job, _, container in all_pods():
            command = container["args"][0]
            help_text = subprocess.run([PROGRAM, command, "--help"],
                                       check=True, capture_output=True,
                                       text=True).stdout
            for argument in container["args"][1:]:
                if argument.startswith("--"):
                    flag = argument.split("=")[0]
                    self.assertRegex(help_text, rf"{flag}\b", (name, job))


class PolicyTest(unittest.TestCase):

    def test_jobs_restart_only_what_failed(self):
        for name, jobset in all_jobsets():
            with self.subTest(overlay=name):
                policy = jobset["spec"]["failurePolicy"]
                self.assertEqual(
                    [(rule["action"], rule.get("onJobFailureReasons"))
                     for rule in policy["rules"]],
                    [("FailJobSet", ["PodFailurePolicy"]),
                     ("RestartJob", None)])
                self.assertEqual(jobset["spec"]["successPolicy"],
                                 {"operator": "All",
                                  "targetReplicatedJobs": ["server"]})

    def test_exit_codes_2_and_75_are_told_from_failures(self):
        for name, jobset in all_jobsets():
            for job in pods.jobs(jobset).values():
                with self.subTest(overlay=name, job=job["name"]):
                    spec = job["template"]["spec"]
                    rules = spec["podFailurePolicy"]["rules"]
                    (container,) = spec["template"]["spec"]["containers"]
                    self.assertEqual(
                        [rule["action"] for rule in rules],
                        ["FailJob", "Ignore", "Ignore"])
                    for rule, code in zip(rules, (2, 75)):
                        self.assertEqual(rule["onExitCodes"], {
                            "containerName": container["name"],
                            "operator": "In", "values": [code]})
                    self.assertEqual(spec["template"]["spec"]["restartPolicy"],
                                     "Never")
                    self.assertEqual(spec["podReplacementPolicy"], "Failed")

    def test_workers_wait_for_the_server(self):
        for _, jobset in all_jobsets():
            server, worker = jobset["spec"]["replicatedJobs"]
            self.assertEqual(worker["dependsOn"],
                             [{"name": server["name"], "status": "Ready"}])

    def test_one_pod_at_a_time_may_be_evicted(self):
        for name in OVERLAYS:
            objects = overlay(name)
            jobset = one(objects, "JobSet")
            count = sum(map(pods.pod_count, pods.jobs(jobset).values()))
            budget = one(objects, "PodDisruptionBudget")["spec"]
            self.assertEqual(budget["minAvailable"], count - 1)
            selected = {"jobset.sigs.k8s.io/jobset-name":
                        jobset["metadata"]["name"]}
            self.assertEqual(budget["selector"]["matchLabels"], selected)
            network = one(objects, "NetworkPolicy")["spec"]
            self.assertEqual(network["podSelector"]["matchLabels"], selected)


class KubeflowTest(unittest.TestCase):

    def test_the_train_job_refers_to_the_runtime(self):
        reference = kubeflow("trainjob")["spec"]["runtimeRef"]
        runtime = kubeflow("runtime")
        self.assertEqual(reference["kind"], runtime["kind"])
        self.assertEqual(reference["name"], runtime["metadata"]["name"])

    def test_the_server_reads_the_number_of_nodes(self):
        spec = kubeflow("runtime")["spec"]
        server = pods.jobs(spec["template"])["server"]["template"]["spec"]
        (container,) = server["template"]["spec"]["containers"]
        self.assertEqual(
            spec["mlPolicy"]["torch"]["envInjection"]["targets"],
            [{"jobName": "server", "containerNames": [container["name"]]}])
        self.assertFalse([a for a in container["args"] if "--workers" in a])

    def test_the_container_of_a_node_has_the_name_that_is_expected(self):
        job = pods.jobs(kubeflow("runtime")["spec"]["template"])["node"]
        self.assertEqual(
            job["template"]["metadata"]["labels"],
            {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"})
        (container,) = job["template"]["spec"]["template"]["spec"]["containers"]
        self.assertEqual(container["name"], "node")

    def test_the_runtime_differs_from_the_base_only_where_it_must(self):
        base = one(overlay("cpu"), "JobSet")["spec"]
        runtime = kubeflow("runtime")["spec"]["template"]["spec"]
        for key in ("network", "successPolicy", "failurePolicy"):
            self.assertEqual(base[key], runtime[key])
        for job, other in zip(base["replicatedJobs"],
                              runtime["replicatedJobs"]):
            mine = job["template"]["spec"]["template"]["spec"]
            theirs = other["template"]["spec"]["template"]["spec"]
            self.assertEqual({k: v for k, v in mine.items()
                              if k != "containers"},
                             {k: v for k, v in theirs.items()
                              if k != "containers"})
            left = set(mine["containers"][0]["args"]) - {"--workers=2"}
            self.assertEqual(left, set(theirs["containers"][0]["args"]))


if __name__ == "__main__":
    if len(sys.argv) > 1 and not sys.argv[1].startswith("-"):
        PROGRAM = sys.argv.pop(1)
    unittest.main()
