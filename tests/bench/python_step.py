#!/usr/bin/env python3
"""Times steps of PyTorch modules: two workers of the Python package `tributary` with one server in shared memory, two
independent processes, and two processes with DistributedDataParallel over Gloo; prints the ratios of the medians.

    python_step.py [--models cnn,gpt,mlp,bigmlp] [--rounds 3] [--seconds 3]

Run it with a Python that has PyTorch 2 and the wheel of `./tributary wheel`. Models, batches (one per worker) and
optimizers are those of torch_step.py; each worker computes with one thread on random inputs that stay in memory. The
systems take turns in each round. A step of Tributary is the time between two completed steps as server 0 sees it; a step
of PyTorch is the time between two steps of process 0, including zero_grad and the optimizer.
"""
import argparse
import json
import os
import shlex
import socket
import statistics
import subprocess
import sys
import tempfile
import time

# Read by glibc when a process starts. Without these settings, PyTorch returns large tensors to the system in each step.
_MALLOC = {"MALLOC_MMAP_THRESHOLD_": "4294967296", "MALLOC_TRIM_THRESHOLD_": "34359738368",
           "MALLOC_TOP_PAD_": "1073741824"}
_WORKERS = 2
# What each model is compared with.
_PEERS = {"cnn": ["independent"], "gpt": ["independent", "ddp"], "mlp": ["independent", "ddp"],
          "bigmlp": ["independent", "ddp"]}
_OPTIMIZERS = {"adamw": "adamw { learning_rate: 1e-4 beta1: 0.9 beta2: 0.999 weight_decay: 0.01 }",
               "sgd": "sgd { learning_rate: 1e-3 momentum: 0.9 }"}


def make(name):
    """Returns the module, and the inputs and labels of a worker's batch."""
    import torch
    import torch_step
    torch.manual_seed(1)
    module, batch, draw = torch_step.build(name, 0)
    return module, draw(batch)


def loss_of(module, inputs, labels):
    import torch.nn.functional as F
    logits = module(inputs)
    return F.cross_entropy(logits.reshape(-1, logits.shape[-1]), labels.reshape(-1))


def work():
    """A worker of the package."""
    import torch  # noqa: F401  Before connect, which sets its number of threads.
    import tributary
    session = tributary.connect(deterministic=False)
    module, (inputs, labels) = make(session.job.model)
    model = tributary.DistributedDataParallel(module, session)
    for step in session:
        for batch in step.micro_batches:
            batch.backward(loss_of(model, inputs, labels))


def peer(name, kind, rank, port, seconds):
    """A process of PyTorch alone; that with rank 0 prints the median in ms."""
    import torch
    import torch.distributed as dist
    import torch_step
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=_WORKERS)
    module, (inputs, labels) = make(name)
    model = torch.nn.parallel.DistributedDataParallel(module) if kind == "ddp" else module
    optimizer = torch_step.optimizer_of(module, name, "cpu")

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss_of(model, inputs, labels).backward()
        optimizer.step()

    for _ in range(5):
        step()
    start = time.perf_counter()
    step()
    # Both take the same number of steps.
    count = torch.tensor([max(10, int(seconds / (time.perf_counter() - start)))])
    dist.broadcast(count, 0)
    dist.barrier()
    times = [time.perf_counter()]
    for _ in range(int(count)):
        step()
        times.append(time.perf_counter())
    if rank == 0:
        print(statistics.median(b - a for a, b in zip(times, times[1:])) * 1e3, flush=True)
    dist.barrier()
    dist.destroy_process_group()


def time_peer(name, kind, seconds):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    processes = [subprocess.Popen([sys.executable, __file__, "--peer", name, kind, str(rank), str(port), str(seconds)],
                                  env=environment(), stdout=subprocess.PIPE, text=True) for rank in range(_WORKERS)]
    output = [process.communicate()[0] for process in processes]
    if any(process.returncode for process in processes):
        sys.exit(f"python_step.py: {kind} of {name} has failed")
    return float(output[0])


def time_ours(name, steps):
    import tributary
    import torch_step
    module, (inputs, _) = make(name)
    batch = len(inputs)
    rule = "adamw" if "Adam" in type(torch_step.optimizer_of(module, name, "cpu")).__name__ else "sgd"
    os.environ.update(environment())
    with tempfile.TemporaryDirectory() as folder:
        job = os.path.join(folder, "job.textproto")
        with open(job, "w", encoding="utf-8") as file:
            file.write(f"""
                model {{ external {{ name: "{name}" }} }}
                data {{ external {{ train_samples: {batch * _WORKERS} }} }}
                optimizer {{ {_OPTIMIZERS[rule]} }}
                batch {{ global: {batch * _WORKERS} micro_batches: {_WORKERS} }}
                checkpoint {{ every_steps: 0 }}
                steps: {steps}""")
        summary = tributary.train(
            job, os.path.join(folder, "run"), workers=_WORKERS,
            worker_command=shlex.join([sys.executable, os.path.abspath(__file__), "--work"]))
    return summary["step_milliseconds"]["median"]


def environment():
    threads = {name: "1" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")}
    return {**os.environ, **_MALLOC, **threads, "GLOO_SOCKET_IFNAME": "lo"}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default=",".join(_PEERS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3, help="of each measurement; default: 3")
    args = parser.parse_args()
    times = {}
    for number in range(args.rounds):
        for name in args.models.split(","):
            row = times.setdefault(name, {})
            for kind in _PEERS[name]:
                row.setdefault(kind, []).append(time_peer(name, kind, args.seconds))
            steps = max(20, int(args.seconds * 1e3 / row["independent"][-1]))
            row.setdefault("ours", []).append(time_ours(name, steps))
            print(f"round {number + 1}, {name}, ms: " +
                  ", ".join(f"{kind} {values[-1]:.2f}" for kind, values in row.items()), flush=True)
    import torch
    print(f"PyTorch {torch.__version__}; medians of {args.rounds} rounds in ms")
    for name, row in times.items():
        medians = {kind: statistics.median(values) for kind, values in row.items()}
        print(f"{name}: " + ", ".join(f"{kind} {median:.2f}" for kind, median in medians.items()) + "; " +
              ", ".join(f"ours/{kind} {medians['ours'] / medians[kind]:.3f}" for kind in _PEERS[name]))
    print(json.dumps(times))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--work"]:
        work()
    elif sys.argv[1:2] == ["--peer"]:
        peer(sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5]), float(sys.argv[6]))
    else:
        main()
