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
import helm  # pylint: disable=wrong-import-position
import kustomize  # pylint: disable=wrong-import-position
import pods  # pylint: disable=wrong-import-position
import validate  # pylint: disable=wrong-import-position

ROOT = pathlib.Path(__file__).parents[2] / "deploy" / "kubernetes"
OVERLAYS = ("cpu", "gpu", "tls")
PROGRAM = None


def overlay(name):
    return kustomize.resolve(ROOT / "overlays" / name)


def with_component(name, component):
    objects = overlay(name)
    kustomize.add_component(ROOT / "components" / component, objects)
    return objects


def chart(**values):
    job = (ROOT / "base" / "job.textproto").read_text()
    return helm.render(ROOT / "chart", "tributary", {"job": job, **values})


def results():
    (pod,) = kustomize.load_documents(ROOT / "results.yaml")
    return pod


def search():
    volume, jobset = kustomize.load_documents(ROOT / "tune.yaml")
    return volume, jobset


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
        for name, component in (("cpu", "prometheus"),
                                ("tls", "prometheus-tls")):
            for node in with_component(name, component):
                self.assertEqual(validate.errors(node), [], component)
        for node in (results(), *search()):
            self.assertEqual(validate.errors(node), [])

    def test_every_pod_is_valid(self):
        for _, jobset in all_jobsets():
            for job in pods.jobs(jobset).values():
                pod = pods.make_pod(jobset, job, 0)
                self.assertEqual(validate.errors(pod), [])

    def test_every_file_belongs_to_an_overlay_or_to_kubeflow(self):
        files = {str(p.relative_to(ROOT)) for p in ROOT.rglob("*.yaml")
                 if not p.is_relative_to(ROOT / "chart")}
        self.assertEqual(files, {
            "base/kustomization.yaml", "base/jobset.yaml", "base/volume.yaml",
            "base/disruption.yaml", "base/network.yaml",
            "components/tls/kustomization.yaml", "kubeflow/runtime.yaml",
            "components/prometheus/kustomization.yaml",
            "components/prometheus/podmonitor.yaml",
            "components/prometheus-tls/kustomization.yaml", "results.yaml",
            "tune.yaml", "kubeflow/trainjob.yaml", *(f"overlays/{name}/kustomization.yaml"
                                        for name in OVERLAYS)})

    def test_one_wrong_letter_anywhere_is_an_error(self):
        """Every key of every object is misspelled in turn."""
        objects = with_component("tls", "prometheus-tls") + [
            kubeflow("runtime"), kubeflow("trainjob"), results()]
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


class MetricsTest(unittest.TestCase):

    def test_the_monitor_reads_the_metrics_port_of_the_servers(self):
        for name, component in (("cpu", "prometheus"),
                                ("tls", "prometheus-tls")):
            objects = with_component(name, component)
            spec = one(objects, "PodMonitor")["spec"]
            jobset = one(objects, "JobSet")
            self.assertEqual(spec["selector"]["matchLabels"], {
                "jobset.sigs.k8s.io/jobset-name": jobset["metadata"]["name"],
                "jobset.sigs.k8s.io/replicatedjob-name": "server"})
            (endpoint,) = spec["podMetricsEndpoints"]
            self.assertTrue(endpoint["honorLabels"])
            self.assertEqual(endpoint["relabelings"][0]["targetLabel"], "run")
            pod = pods.make_pod(jobset, pods.jobs(jobset)["server"], 0)
            (container,) = pod["spec"]["containers"]
            (port,) = [p["containerPort"] for p in container["ports"]
                       if p["name"] == endpoint["port"]]
            self.assertIn(f"--metrics-listen=0.0.0.0:{port}",
                          container["args"])
            encrypted = "--tls-dir=/tls" in container["args"]
            self.assertEqual(endpoint["scheme"],
                             "https" if encrypted else "http")
            if encrypted:
                secrets = {v["secret"]["secretName"]: v["secret"]
                           for v in pod["spec"]["volumes"] if "secret" in v}
                ca = endpoint["tlsConfig"]["ca"]["secret"]
                self.assertIn(ca["key"], [item["key"] for item in
                                          secrets[ca["name"]]["items"]])

    def test_only_prometheus_may_connect_and_only_to_the_metrics(self):
        for name in OVERLAYS:
            own, prometheus = one(overlay(name), "NetworkPolicy")["spec"][
                "ingress"]
            self.assertNotIn("ports", own)
            self.assertEqual(prometheus["ports"], [{"port": "metrics"}])
            (source,) = prometheus["from"]
            self.assertEqual(source["podSelector"]["matchLabels"],
                             {"app.kubernetes.io/name": "prometheus"})


class SearchTest(unittest.TestCase):
    """Pods that share a study."""

    def setUp(self):
        self.volume, self.jobset = search()
        (self.job,) = pods.jobs(self.jobset).values()
        self.pod = pods.make_pod(self.jobset, self.job, 0)
        (self.container,) = self.pod["spec"]["containers"]

    def test_all_pods_write_to_one_volume(self):
        self.assertEqual(self.volume["spec"]["accessModes"], ["ReadWriteMany"])
        claims = [v["persistentVolumeClaim"]["claimName"]
                  for v in self.pod["spec"]["volumes"]
                  if "persistentVolumeClaim" in v]
        self.assertEqual(claims, [self.volume["metadata"]["name"]])
        self.assertEqual({m["name"] for m in self.container["volumeMounts"]},
                         {v["name"] for v in self.pod["spec"]["volumes"]})
        self.assertGreater(pods.pod_count(self.job), 1)

    def test_the_pod_is_valid_and_has_no_privileges(self):
        self.assertEqual(validate.errors(self.pod), [])
        (other,) = pods.make_pod(one(overlay("cpu"), "JobSet"), pods.jobs(
            one(overlay("cpu"), "JobSet"))["worker"], 0)["spec"]["containers"]
        self.assertEqual(self.container["securityContext"],
                         other["securityContext"])
        self.assertTrue(self.pod["spec"]["securityContext"]["runAsNonRoot"])

    def test_exit_codes_2_and_75_are_told_from_failures(self):
        worker = pods.jobs(one(overlay("cpu"), "JobSet"))["worker"]
        self.assertEqual(
            self.job["template"]["spec"]["podFailurePolicy"],
            worker["template"]["spec"]["podFailurePolicy"])

    def test_the_program_knows_every_flag(self):
        if PROGRAM is None:
            self.skipTest("no program was given")
        self.assertEqual(self.container["args"][0], "tune")
        self.assertIn("--shared", self.container["args"])
        help_text = subprocess.run([PROGRAM, "tune", "--help"], check=True,
                                   capture_output=True, text=True).stdout
        for argument in self.container["args"][2:]:
            self.assertRegex(help_text, rf"{argument.split('=')[0]}\b")


class ResultsTest(unittest.TestCase):

    def test_the_pod_reads_the_volume_that_the_server_writes(self):
        claim = one(overlay("cpu"), "PersistentVolumeClaim")["metadata"]["name"]
        jobset = one(overlay("cpu"), "JobSet")
        server = pods.make_pod(jobset, pods.jobs(jobset)["server"], 0)["spec"]
        mine = results()["spec"]
        for spec in (server, mine):
            (volume,) = [v for v in spec["volumes"] if v["name"] == "output"]
            self.assertEqual(volume["persistentVolumeClaim"]["claimName"],
                             claim)
            (mount,) = [m for m in spec["containers"][0]["volumeMounts"]
                        if m["name"] == "output"]
            self.assertEqual(mount["mountPath"], "/output")
        self.assertTrue(mount["readOnly"])
        for key in ("runAsUser", "runAsGroup", "fsGroup"):
            self.assertEqual(server["securityContext"][key],
                             mine["securityContext"][key])


class ChartTest(unittest.TestCase):
    """The chart makes the same objects as the overlays."""

    def assert_equal(self, from_chart, from_overlay):
        for node in from_chart:
            node["metadata"].pop("annotations", None)
        by_kind = lambda objects: {o["kind"]: o for o in objects}
        self.maxDiff = None
        self.assertEqual(by_kind(from_chart), by_kind(from_overlay))

    def test_its_defaults_are_the_overlay_cpu(self):
        self.assert_equal(chart(), overlay("cpu"))

    def test_with_tls_it_is_the_overlay_tls(self):
        self.assert_equal(chart(tls=True, podMonitor=True),
                          with_component("tls", "prometheus-tls"))

    def test_with_a_monitor_it_has_the_component_prometheus(self):
        self.assert_equal(chart(podMonitor=True),
                          with_component("cpu", "prometheus"))

    def test_with_gpus_it_is_the_overlay_gpu(self):
        expected = overlay("gpu")
        worker = pods.jobs(one(expected, "JobSet"))["worker"]["template"][
            "spec"]["template"]["spec"]["containers"][0]
        self.assert_equal(
            chart(image={"repository": "tributary-gpu"},
                  workers={"gpu": True, "resources": worker["resources"]}),
            expected)

    def test_counts_fit_each_other(self):
        objects = chart(workers={"count": 5}, servers={"count": 2})
        self.assertEqual(
            one(objects, "PodDisruptionBudget")["spec"]["minAvailable"], 6)
        jobs = pods.jobs(one(objects, "JobSet"))
        self.assertEqual(pods.pod_count(jobs["worker"]), 5)
        self.assertEqual(pods.pod_count(jobs["server"]), 2)
        arguments = jobs["server"]["template"]["spec"]["template"]["spec"][
            "containers"][0]["args"]
        self.assertIn("--workers=5", arguments)
        self.assertIn("--servers=2", arguments)

    def test_training_data_are_mounted_in_the_workers(self):
        volume = {"name": "data", "hostPath": {"path": "/data"}}
        mount = {"name": "data", "mountPath": "/data", "readOnly": True}
        objects = chart(workers={"volumes": [volume], "volumeMounts": [mount]})
        jobset = one(objects, "JobSet")
        self.assertEqual(validate.errors(jobset), [])
        worker = pods.jobs(jobset)["worker"]["template"]["spec"]["template"][
            "spec"]
        self.assertIn(volume, worker["volumes"])
        self.assertIn(mount, worker["containers"][0]["volumeMounts"])

    def test_a_release_of_another_name_is_another_job(self):
        job = (ROOT / "base" / "job.textproto").read_text()
        objects = helm.render(ROOT / "chart", "other", {"job": job})
        for node in objects:
            self.assertEqual(validate.errors(node), [])
            self.assertTrue(node["metadata"]["name"].startswith("other"))

    def test_a_chart_without_a_job_is_an_error(self):
        with self.assertRaisesRegex(ValueError, "--set-file job="):
            chart(job="")


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
