#!/usr/bin/env python3
"""Trains a job with servers and workers that are actors of Ray.

    pip install ray
    python3 train.py JOB.textproto --workers 4 --servers 2 --output /shared/run

Each actor runs one process of the program `tributary`, on the resources of one bundle of
a placement group. When an actor or its node is lost, this program starts a new actor on
the same bundle, which Ray has placed on another node if necessary. The job then continues
to the same bits: a new worker takes over work, and with a new server the job goes back to
its newest checkpoint.

--output must be a folder that all nodes share, unless there is only one node.
"""

import argparse
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile

import ray
from ray.util.placement_group import placement_group, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

# The program's exit code when it wants to be started again; see docs/fault-tolerance.md.
RESTART = 75


def files_of(role):
    """Returns the names of the certificate files that a process with this role needs."""
    return ['ca.pem', f'{role}.pem', f'{role}-key.pem']


class JobFailed(Exception):
    """A process of the job has failed. The text is its error message."""


@ray.remote(num_cpus=1, max_concurrency=2)
class Process:
    """Runs one process of the program, on the node of this actor."""

    def address(self, port=0):
        """Returns this node's IP address and a free port: `port`, unless that is taken."""
        host = ray.util.get_node_ip_address()
        for wanted in (port, 0):
            with socket.socket() as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                try:
                    probe.bind((host, wanted))
                    return host, probe.getsockname()[1]
                except OSError:
                    pass
        raise JobFailed(f'there is no free port on {host}')

    def run(self, command, secrets):
        """Blocks until the process has ended. Returns its exit code, which is negative if
        a signal has ended it, and the last line that it has printed.

        secrets: contents of the files for --tls-dir, by name; empty without TLS. They are
        on this node's disk only while the process runs.
        """
        folder = tempfile.mkdtemp(prefix='tributary-')
        try:
            for name, contents in secrets.items():
                path = os.path.join(folder, name)
                with open(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600), 'wb') as file:
                    file.write(contents)
            if secrets:
                command = [*command, '--tls-dir', folder]
            last = ''
            # The process must not outlive the thread that runs it, and so not the actor.
            with subprocess.Popen(['setpriv', '--pdeathsig', 'KILL', *command],
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True) as process:
                for line in process.stdout:
                    last = line.strip() or last
                    # Ray forwards it to the terminal of the program that waits.
                    print(line, end='', flush=True)
            return process.returncode, last
        finally:
            shutil.rmtree(folder, ignore_errors=True)


class Training:
    """Starts the actors of a job, and replaces those that are lost.

    actors: the current actor of each process, by name: server-0, worker-0, ...
    """

    def __init__(self, job, output, workers=2, servers=1, cpus=1, gpus=0, program='tributary',
                 arguments=(), tls=True, max_restarts=10):
        """arguments: further arguments of server 0, such as --set and its value.
        cpus, gpus: resources of each actor. max_restarts: for all processes together."""
        self._job = os.path.abspath(job)
        self._output = os.path.abspath(output)
        self._program = program
        self._arguments = list(arguments)
        self._cpus, self._gpus = cpus, gpus
        self._servers, self._workers = servers, workers
        self._restarts_left = max_restarts
        self._secrets = self._make_secrets() if tls else {}
        self._coordinator = None
        self.actors = {}

    def run(self):
        """Blocks until the job is done, and returns its summary. Raises JobFailed."""
        names = [f'server-{i}' for i in range(self._servers)]
        names += [f'worker-{i}' for i in range(self._workers)]
        # Workers need a GPU each; servers update the weights on CPUs.
        bundles = [{'CPU': self._cpus, **({'GPU': self._gpus} if self._gpus and
                                          name.startswith('worker') else {})} for name in names]
        self._bundles = {name: i for i, name in enumerate(names)}
        self._group = placement_group(bundles, strategy='SPREAD')
        try:
            # Fails at once, with Ray's reason, if the cluster can never have the resources.
            ray.get(self._group.ready(), timeout=600)
            running = {self._start(name): name for name in names}
            while running:
                done, _ = ray.wait(list(running), num_returns=1)
                name = running.pop(done[0])
                if self._must_restart(name, done[0]):
                    running.update(self._restart(name, running))
            with open(os.path.join(self._output, 'summary.json'), encoding='utf-8') as file:
                return json.load(file)
        finally:
            for actor in self.actors.values():
                ray.kill(actor)
            remove_placement_group(self._group)

    def _make_secrets(self):
        """Returns certificates for this run, by role and file name."""
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([self._program, 'certs', folder], check=True,
                           stdout=subprocess.DEVNULL)
            secrets = {}
            for role in ('server', 'worker'):
                secrets[role] = {}
                for name in files_of(role):
                    with open(os.path.join(folder, name), 'rb') as file:
                        secrets[role][name] = file.read()
            return secrets

    def _start(self, name):
        """Starts the process on a new actor. Returns the future of Process.run."""
        role = name.split('-')[0]
        actor = Process.options(
            num_cpus=self._cpus, num_gpus=self._gpus if role == 'worker' else 0,
            scheduling_strategy=PlacementGroupSchedulingStrategy(
                self._group, placement_group_bundle_index=self._bundles[name])).remote()
        self.actors[name] = actor
        return actor.run.remote(self._command(name, actor), self._secrets.get(role, {}))

    def _command(self, name, actor):
        role, number = name.split('-')
        if role == 'worker':
            return [self._program, 'worker', '--coordinator', self._coordinator,
                    '--threads', str(max(1, int(self._cpus)))]
        command = [self._program, 'server', '--servers', str(self._servers)]
        if not self._secrets:
            command.append('--insecure-network')
        if number == '0':
            # On the same node, the same address, which the other processes know.
            port = int(self._coordinator.rsplit(':', 1)[1]) if self._coordinator else 0
            self._coordinator = '{}:{}'.format(*ray.get(actor.address.remote(port)))
            return [*command, self._job, '--listen', self._coordinator, '--output', self._output,
                    '--workers', str(self._workers), '--resume', 'auto', *self._arguments]
        address = '{}:{}'.format(*ray.get(actor.address.remote()))
        return [*command, '--shard', number, '--coordinator', self._coordinator,
                '--listen', address]

    def _must_restart(self, name, future):
        """Returns False if the process is done. Raises JobFailed if it has failed."""
        try:
            code, last = ray.get(future)
            lost = f'exit code {code}: {last}'
        except ray.exceptions.RayActorError as error:
            code, lost = RESTART, str(error).split('\n', maxsplit=1)[0]
        if code == 0:
            return False
        if code != RESTART and code > 0:
            raise JobFailed(f'{name}: {last}')
        if self._restarts_left == 0:
            raise JobFailed(f'{name}: {lost}; no restart is left, see --max-restarts')
        self._restarts_left -= 1
        print(f'{name} is lost and started again: {lost}', file=sys.stderr)
        return True

    def _restart(self, name, running):
        """Returns the new futures. Removes those of processes that are started again."""
        coordinator = self._coordinator
        started = {self._start(name): name}
        if self._coordinator != coordinator:
            # Server 0 is on another node, at an address that the others do not know.
            for future, other in list(running.items()):
                del running[future]
                ray.kill(self.actors[other])
                started[self._start(other)] = other
        return started


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n', maxsplit=1)[0])
    parser.add_argument('job')
    parser.add_argument('--output', required=True, help='a folder that all nodes share')
    parser.add_argument('--workers', type=int, default=2)
    parser.add_argument('--servers', type=int, default=1)
    parser.add_argument('--cpus', type=int, default=1, help='CPUs of each actor')
    parser.add_argument('--gpus', type=int, default=0, help='GPUs of each worker')
    parser.add_argument('--program', default='tributary', help='path of the program on all nodes')
    parser.add_argument('--insecure-network', action='store_true', help='no TLS')
    parser.add_argument('--max-restarts', type=int, default=10)
    options = parser.parse_args()
    ray.init()
    try:
        summary = Training(options.job, options.output, options.workers, options.servers,
                           options.cpus, options.gpus, options.program,
                           tls=not options.insecure_network,
                           max_restarts=options.max_restarts).run()
    except JobFailed as error:
        sys.exit(f'error: {error}')
    print(f'{summary["steps"]} steps, weights {summary["weights_sha256"]}')


if __name__ == '__main__':
    main()
