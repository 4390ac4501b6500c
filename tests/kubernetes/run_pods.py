#!/usr/bin/env python3
"""Runs the JobSet of deploy/kubernetes with podman, and disturbs its pods.

    tests/kubernetes/run_pods.py bazel-bin/deploy/tributary [--steps N]
        [--scenario NAME]...

The pods are those that the JobSet describes, with their DNS names, users, file
systems and health ports. This script does the work of the controllers and of
the kubelet: it starts the workers when the server is ready, replaces pods as
podFailurePolicy says, evicts one pod at a time, and updates the files of
Secrets. Each scenario must end with the same weights as the undisturbed job.
For each disturbance, the script prints the longest time without a step.

Not part of CI: needs root and Debian's podman, netavark, aardvark-dns, runc,
catatonit, python3-yaml and python3-grpcio. Needs no network: everything runs in
namespaces of its own, in which nothing else can be reached, and which end with
the script.
"""

import argparse
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import kustomize  # pylint: disable=wrong-import-position
import pods  # pylint: disable=wrong-import-position
import secrets_for_pods  # pylint: disable=wrong-import-position

ROOT = HERE.parents[1]
NETWORK = "tributary"
IMAGE = "localhost/tributary-pods"
USER = 10001
# The folder of this run, in which the second start of this script finds itself.
WORK = os.environ.get("RUN_PODS_FOLDER")
PODMAN = ("podman", "--root", f"{WORK}/storage", "--runroot", "/run/pods",
          "--storage-driver", "overlay", "--events-backend", "none")
# A loaded machine may be slow.
PATIENCE = 300
# Certificates and tokens are read every second.
RELOAD_SECONDS = 3
MOST_FAILURES = 12

def run(*command, check=True):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if check and done.returncode != 0:
        raise SystemExit(f"failed: {' '.join(command)}\n{done.stderr}")
    return done.stdout.strip()


def podman(*arguments, check=True):
    return run(*PODMAN, *arguments, check=check)


def shortened(job, steps):
    """Returns the job with `steps` steps, each of which writes a line."""
    for field, value in (("steps", steps), ("log_every_steps", 1),
                         ("every_steps", 25)):
        job, count = re.subn(rf"(?m)^( *{field}): \d+", rf"\1: {value}", job)
        if count != 1:
            raise SystemExit(f"the job has {count} fields {field}")
    return job


def wait_for(what, condition, seconds=PATIENCE):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise SystemExit(f"waited {seconds} s for {what}")
        time.sleep(0.05)


def health(address, service):
    """Returns True if the health service answers SERVING."""
    import grpc  # pylint: disable=import-outside-toplevel
    request = b"\x0a" + bytes([len(service)]) + service.encode()
    with grpc.insecure_channel(f"{address}:29500") as channel:
        try:
            return channel.unary_unary("/grpc.health.v1.Health/Check")(
                request, timeout=2) == b"\x08\x01"
        except grpc.RpcError:
            return False


def save_log(container):
    """Appends the log of a container to logs.txt."""
    done = subprocess.run([*PODMAN, "logs", container], capture_output=True,
                          text=True, check=False)
    with open(f"{WORK}/logs.txt", "a", encoding="utf-8") as logs:
        logs.write(f"==== {container}\n{done.stdout}{done.stderr}")


class Pod:
    """A pod that runs, or has run."""

    def __init__(self, manifest, volumes):
        self.manifest = manifest
        self.name = manifest["metadata"]["name"]
        self.role = manifest["metadata"]["labels"][
            "jobset.sigs.k8s.io/replicatedjob-name"]
        self.disrupted = False
        self._start(volumes)
        self.address = podman("inspect", "--format",
                              "{{(index .NetworkSettings.Networks \"%s\")"
                              ".IPAddress}}" % NETWORK, self._infra())

    def _start(self, volumes):
        node = json.loads(json.dumps(self.manifest))
        spec = node["spec"]
        container = spec["containers"][0]
        container["image"] = IMAGE
        container["imagePullPolicy"] = "Never"
        # podman 4.3 has no gRPC probes; this script probes. It would publish
        # the ports on the host.
        for field in ("startupProbe", "livenessProbe", "readinessProbe",
                      "ports"):
            del container[field]
        # The machine may have fewer cores than the manifest asks for.
        for amounts in container["resources"].values():
            amounts.pop("cpu", None)
        for volume in spec["volumes"]:
            if "emptyDir" not in volume:
                path = volumes[volume["name"]]
                if callable(path):
                    path = path(self.role)
                for source in ("configMap", "secret", "persistentVolumeClaim"):
                    volume.pop(source, None)
                volume["hostPath"] = {"path": str(path), "type": "Directory"}
        path = f"{WORK}/{self.name}.json"
        pathlib.Path(path).write_text(json.dumps(node))
        podman("kube", "play", "--network",
               f"{NETWORK}:alias={pods.address(node)}", path)

    def _container(self):
        return f"{self.name}-{self.manifest['spec']['containers'][0]['name']}"

    def _infra(self):
        return podman("pod", "inspect", "--format", "{{.InfraContainerID}}",
                      self.name)

    def ready(self):
        return health(self.address, "tributary.ready")

    def alive(self):
        return health(self.address, "")

    def exit_code(self):
        """Returns None while the container runs."""
        state, code = podman("inspect", "--format",
                             "{{.State.Status}} {{.State.ExitCode}}",
                             self._container()).split()
        return int(code) if state == "exited" else None

    def kill(self):
        podman("kill", "--signal", "KILL", self._container())

    def evict(self):
        self.disrupted = True
        grace = self.manifest["spec"]["terminationGracePeriodSeconds"]
        podman("stop", "--time", str(grace), self._container())

    def remove(self):
        save_log(self._container())
        podman("pod", "rm", "--force", "--time", "0", self.name)


class Steps:
    """Watches metrics.jsonl, in which every step is a line."""

    def __init__(self, output):
        self.path = output / "metrics.jsonl"
        self.highest = 0
        self.mu = threading.Lock()
        self.times = [time.monotonic()]  # When a line was added.
        self.best = [time.monotonic()]   # When the highest step grew.
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self._watch, daemon=True)
        self.thread.start()

    def _watch(self):
        last = None
        while not self.stop.wait(0.02):
            try:
                with open(self.path, "rb") as lines:
                    lines.seek(0, 2)
                    lines.seek(max(0, lines.tell() - 4096))
                    line = lines.read().split(b"\n")[-2]
                step = json.loads(line).get("step", 0)
            except (OSError, ValueError, IndexError):
                continue
            if line == last:
                continue
            last = line
            with self.mu:
                self.times.append(time.monotonic())
                if step > self.highest:
                    self.highest = step
                    self.best.append(time.monotonic())

    def longest_gaps(self, since):
        """Longest times without any, and without a new, step."""
        with self.mu:
            return [max(b - a for a, b in zip(times, times[1:]) if b > since)
                    for times in (self.times, self.best)]


class Cluster:
    """The controllers and the kubelet, for one JobSet."""

    def __init__(self, overlay, folder, steps):
        objects = kustomize.resolve(ROOT / "deploy/kubernetes/overlays" /
                                    overlay)
        (self.jobset,) = [o for o in objects if o["kind"] == "JobSet"]
        (budget,) = [o for o in objects if o["kind"] == "PodDisruptionBudget"]
        self.min_available = budget["spec"]["minAvailable"]
        self.output = folder / "output"
        self.output.mkdir(parents=True)
        os.chown(self.output, USER, USER)
        self.secrets = secrets_for_pods.Secrets(folder / "secrets", USER)
        job = folder / "job"
        job.mkdir()
        (config,) = [o for o in objects if o["kind"] == "ConfigMap"]
        for name, text in config["data"].items():
            (job / name).write_text(shortened(text, steps))
        self.volumes = {"job": job, "output": self.output,
                        "tls": self.secrets.tls_folder,
                        "token": self.secrets.token_folder}
        self.pods = {}
        self.failures = 0
        self.replaced = 0
        self.steps = Steps(self.output)

    def start(self):
        server, worker = (pods.jobs(self.jobset)[name]
                          for name in ("server", "worker"))
        for index in range(pods.pod_count(server)):
            self._start(pods.make_pod(self.jobset, server, index))
        self.settle()
        for index in range(pods.pod_count(worker)):
            self._start(pods.make_pod(self.jobset, worker, index))
        self.settle()

    def _start(self, manifest):
        pod = Pod(manifest, self.volumes)
        self.pods[pod.name] = pod

    def pod(self, role, index=0):
        return self.pods[f"{self.jobset['metadata']['name']}-{role}-0-{index}"]

    def reconcile(self):
        """Replaces pods that have failed. Returns True if the job is done."""
        for pod in list(self.pods.values()):
            code = pod.exit_code()
            if code is None:
                continue
            if code == 0:
                if pod.role == "server":
                    return True
                continue
            rules = pods.jobs(self.jobset)[pod.role]["template"]["spec"][
                "podFailurePolicy"]["rules"]
            action = next(
                (rule["action"] for rule in rules
                 if code in rule.get("onExitCodes", {}).get("values", []) or
                 ("onPodConditions" in rule and pod.disrupted)), "Count")
            if action == "FailJob":
                raise SystemExit(f"{pod.name} ended with {code}")
            if action == "Count":
                self.failures += 1
                if self.failures > MOST_FAILURES:
                    raise SystemExit(f"{pod.name} ends with {code}")
            self.replaced += 1
            pod.remove()
            self._start(pod.manifest)
        return False

    def settle(self):
        """Waits until all pods are ready, as an eviction does."""
        def settled():
            if self.reconcile():
                raise SystemExit("the job has ended too early: raise --steps")
            return all(p.ready() for p in self.pods.values())
        wait_for("all pods to be ready", settled)

    def await_steps(self, count):
        """Waits for `count` new steps."""
        goal = self.steps.highest + count
        def reached():
            if self.reconcile():
                raise SystemExit("the job has ended too early: raise --steps")
            return self.steps.highest >= goal
        wait_for(f"step {goal}", reached)

    def finish(self):
        wait_for("the end of the job", self.reconcile, seconds=1200)
        self.steps.stop.set()
        for pod in self.pods.values():
            pod.remove()
        summary = json.loads((self.output / "summary.json").read_text())
        if summary["status"] != "done":
            raise SystemExit(f"the job is {summary['status']}")
        return summary

    def disturb(self, name, action):
        """Runs `action`, and prints how it affected the steps."""
        self.await_steps(20)
        before, begin = self.replaced, time.monotonic()
        action()
        self.settle()
        self.await_steps(20)
        pause, behind = self.steps.longest_gaps(begin)
        print(f"  {name}: {pause:.1f} s without a step, {behind:.1f} s without "
              f"a new step, {self.replaced - before} pods replaced, all ready "
              f"after {time.monotonic() - begin:.1f} s", flush=True)

    def drain(self):
        """Evicts every pod, when the disruption budget permits it."""
        for name in sorted(self.pods):
            ready = sum(p.ready() for p in self.pods.values())
            if ready - 1 < self.min_available:
                raise SystemExit("the eviction is not permitted")
            self.pods[name].evict()
            self.settle()


def undisturbed(_):
    pass


def kills(cluster):
    cluster.disturb("worker killed", cluster.pod("worker", 1).kill)
    cluster.disturb("server killed", cluster.pod("server").kill)
    cluster.disturb("worker killed again", cluster.pod("worker", 0).kill)


def drain(cluster):
    cluster.disturb("server drained", cluster.pod("server").evict)
    cluster.disturb("worker drained", cluster.pod("worker", 0).evict)
    cluster.disturb("all pods drained, one at a time", cluster.drain)


def rotation(cluster):
    """Each step of each rotation, and a reconnection after it."""
    secrets = cluster.secrets

    def step(name, change, victim):
        change()
        time.sleep(RELOAD_SECONDS)
        cluster.disturb(f"{name}, then {victim.name} killed", victim.kill)

    worker = lambda index: cluster.pod("worker", index)
    server_address = lambda: cluster.pod("server").address
    before = secrets.served_certificate(server_address())
    step("new certificates", secrets.renew, worker(0))
    after = secrets.served_certificate(server_address())
    assert before != after, "the server still uses its old certificate"
    step("authorities old + new", secrets.trust_new_authority, worker(1))
    step("certificates of the new authority", secrets.renew_by_new, worker(0))
    step("authority new only", secrets.forget_old_authority,
         cluster.pod("server"))
    step("token old + new", secrets.accept_new_token, worker(0))
    step("token new + old", secrets.send_new_token, worker(1))
    step("token new only", secrets.forget_old_token, worker(0))
    refusal = secrets.refusal_of_old_token(server_address())
    assert "UNAUTHENTICATED" in refusal, refusal
    cluster.disturb("server killed", cluster.pod("server").kill)


SCENARIOS = {"undisturbed": ("cpu", undisturbed), "kills": ("cpu", kills),
             "drain": ("cpu", drain), "rotation": ("tls", rotation)}


def build_image(program):
    run(str(ROOT / "deploy/compose/collect.sh"), program, f"{WORK}/image")
    pathlib.Path(WORK, "Containerfile").write_text(
        f"FROM scratch\nCOPY image /\nUSER {USER}:{USER}\n"
        f'ENTRYPOINT ["/usr/bin/{pathlib.Path(program).name}"]\n')
    podman("build", "--isolation", "chroot", "--tag", IMAGE, "--file",
           f"{WORK}/Containerfile", WORK)


def main_inside(options):
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        run_scenarios(options)
    except BaseException:
        # The caller shows the logs.
        for name in podman("ps", "--all", "--format", "{{.Names}}",
                           check=False).split():
            save_log(name)
        raise
    finally:
        # Their control groups would outlive the namespaces.
        podman("pod", "rm", "--all", "--force", "--time", "0", check=False)


def run_scenarios(options):
    run("ip", "link", "set", "lo", "up")
    build_image(options.program)
    podman("network", "create", "--subnet", "10.89.77.0/24", NETWORK)
    digests = {}
    for name in options.scenario or SCENARIOS:
        overlay, disturb = SCENARIOS[name]
        print(f"{name} (overlay {overlay}):", flush=True)
        cluster = Cluster(overlay, pathlib.Path(WORK, name), options.steps)
        begin = time.monotonic()
        cluster.start()
        print(f"  all pods ready after {time.monotonic() - begin:.1f} s")
        disturb(cluster)
        summary = cluster.finish()
        digests[name] = summary["weights_sha256"]
        print(f"  done after {time.monotonic() - begin:.0f} s, "
              f"{summary['attempt']} attempts, {cluster.replaced} pods "
              f"replaced, weights_sha256 {digests[name]}", flush=True)
    if len(set(digests.values())) != 1:
        raise SystemExit(f"the weights differ: {digests}")
    print("passed")


CONFIGURATION = """
[containers]
# The defaults exceed the limits of some virtual machines.
default_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]
log_driver = "k8s-file"
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
[network]
network_backend = "netavark"
network_config_dir = "%s/networks"
"""


def end(process):
    """Ends the namespaces, in which nothing continues to run."""
    if process.poll() is not None:
        return
    children = run("ps", "--no-headers", "-o", "pid", "--ppid",
                   str(process.pid), check=False)
    for child in children.split():
        os.kill(int(child), signal.SIGTERM)
    try:
        process.wait(timeout=60)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--steps", type=int, default=2500)
    parser.add_argument("--scenario", action="append", choices=SCENARIOS)
    parser.add_argument("--keep", action="store_true",
                        help="keep the working folder, which has the logs")
    options = parser.parse_args()
    if WORK is not None:
        main_inside(options)
        return
    if os.geteuid() != 0:
        raise SystemExit("needs root, to create namespaces")
    folder = tempfile.mkdtemp(prefix="tributary-pods-", dir="/var/tmp")
    os.chmod(folder, 0o755)
    configuration = pathlib.Path(folder, "containers.conf")
    configuration.write_text(CONFIGURATION % folder)
    # Other containers of this machine have state in /run and /dev/shm.
    inside = ("mount -t tmpfs none /run && mount -t tmpfs none /dev/shm && "
              'exec "$@"')
    process = subprocess.Popen(
        ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child",
         "--mount-proc", "sh", "-c", inside, "sh", sys.executable, *sys.argv],
        env=dict(os.environ, RUN_PODS_FOLDER=folder,
                 CONTAINERS_CONF=str(configuration)))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        code = process.wait()
        if code != 0:
            log = pathlib.Path(folder, "logs.txt")
            if log.exists():
                print(log.read_text()[-20000:], file=sys.stderr)
        sys.exit(code)
    finally:
        end(process)
        if not options.keep:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
