#!/usr/bin/env python3
"""Times steps of PyTorch modules: workers of the Python package `tributary` with one server in shared memory, as many
independent processes, and as many processes with DistributedDataParallel over Gloo; prints the ratios of the medians.

    python_step.py [--models cnn,gpt,mlp,bigmlp] [--rounds 3] [--seconds 3] [--workers 2]
                   [--device cpu|cuda] [--precision FLOAT32|BFLOAT16] [--batch N] [--server-device cpu|cuda]

Run it with a Python that has PyTorch 2 and the wheel of `./tributary wheel`. Models, batches (one per worker) and
optimizers are those of torch_step.py; each worker computes with one thread on random inputs that stay in memory of its
device. BFLOAT16 is autocast. The systems take turns in each round. A step of Tributary is the time between two
completed steps as server 0 sees it; a step of PyTorch is the time between two steps of process 0, including zero_grad
and the optimizer. On a GPU, Tributary is compared only with independent processes.
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
# What each model is compared with.
_PEERS = {"cnn": ["independent"], "gpt": ["independent", "ddp"], "mlp": ["independent", "ddp"],
          "bigmlp": ["independent", "ddp"]}
_OPTIMIZERS = {"adamw": "adamw { learning_rate: 1e-4 beta1: 0.9 beta2: 0.999 weight_decay: 0.01 }",
               "sgd": "sgd { learning_rate: 1e-3 momentum: 0.9 }"}


def make(name, args):
    """Returns the module, and the inputs and labels of a worker's batch."""
    import torch
    import torch_step
    torch.manual_seed(1)
    module, batch, draw = torch_step.build(name, 0)
    return module.to(args.device), [tensor.to(args.device) for tensor in draw(args.batch or batch)]


def loss_of(module, inputs, labels, args):
    import torch
    import torch.nn.functional as F
    with torch.autocast(args.device, torch.bfloat16, enabled=args.precision == "BFLOAT16"):
        logits = module(inputs)
        return F.cross_entropy(logits.reshape(-1, logits.shape[-1]), labels.reshape(-1))


def work(args):
    """A worker of the package."""
    import torch  # noqa: F401  Before connect, which sets its number of threads.
    import tributary
    session = tributary.connect(deterministic=False)
    module, (inputs, labels) = make(session.job.model, args)
    model = tributary.DistributedDataParallel(module, session)
    for step in session:
        for batch in step.micro_batches:
            batch.backward(loss_of(model, inputs, labels, args))


def peer(args):
    """A process of PyTorch alone; that with rank 0 prints the median in ms."""
    import torch
    import torch.distributed as dist
    import torch_step
    name, kind, rank, port = args.peer
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=int(rank), world_size=args.workers)
    module, (inputs, labels) = make(name, args)
    model = torch.nn.parallel.DistributedDataParallel(module) if kind == "ddp" else module
    optimizer = torch_step.optimizer_of(module, name, args.device)

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss_of(model, inputs, labels, args).backward()
        optimizer.step()
        if args.device == "cuda":
            torch.cuda.synchronize()

    for _ in range(5):
        step()
    start = time.perf_counter()
    step()
    # Both take the same number of steps.
    count = torch.tensor([max(10, int(args.seconds / (time.perf_counter() - start)))])
    dist.broadcast(count, 0)
    dist.barrier()
    times = [time.perf_counter()]
    for _ in range(int(count)):
        step()
        times.append(time.perf_counter())
    if rank == "0":
        print(statistics.median(b - a for a, b in zip(times, times[1:])) * 1e3, flush=True)
    dist.barrier()
    dist.destroy_process_group()


def command(args, *mode):
    """Returns the command of a process that this script starts."""
    return [sys.executable, os.path.abspath(__file__), *mode, "--device", args.device, "--precision", args.precision,
            "--batch", str(args.batch), "--workers", str(args.workers), "--seconds", str(args.seconds)]


def time_peer(name, kind, args):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    processes = [subprocess.Popen(command(args, "--peer", name, kind, str(rank), str(port)), env=environment(args),
                                  stdout=subprocess.PIPE, text=True) for rank in range(args.workers)]
    output = [process.communicate()[0] for process in processes]
    if any(process.returncode for process in processes):
        sys.exit(f"python_step.py: {kind} of {name} has failed")
    return float(output[0])


def time_ours(name, steps, args):
    import tributary
    import torch_step
    module, batch, _ = torch_step.build(name, 0)
    batch = args.batch or batch
    rule = "adamw" if "Adam" in type(torch_step.optimizer_of(module, name, "cpu")).__name__ else "sgd"
    os.environ.update(environment(args))
    with tempfile.TemporaryDirectory() as folder:
        job = os.path.join(folder, "job.textproto")
        with open(job, "w", encoding="utf-8") as file:
            file.write(f"""
                model {{ external {{ name: "{name}" }} }}
                data {{ external {{ train_samples: {batch * args.workers} }} }}
                optimizer {{ {_OPTIMIZERS[rule]} }}
                batch {{ global: {batch * args.workers} micro_batches: {args.workers} }}
                checkpoint {{ every_steps: 0 }}
                steps: {steps}""")
        summary = tributary.train(
            job, os.path.join(folder, "run"), workers=args.workers, worker_command=shlex.join(command(args, "--work")),
            arguments=["--server-device", args.server_device])
    return summary["step_milliseconds"]["median"]


def environment(args):
    if args.device == "cuda":
        return dict(os.environ)
    threads = {name: "1" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")}
    return {**os.environ, **_MALLOC, **threads, "GLOO_SOCKET_IFNAME": "lo"}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default=",".join(_PEERS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3, help="of each measurement; default: 3")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--server-device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--precision", choices=["FLOAT32", "BFLOAT16"], default="FLOAT32")
    parser.add_argument("--batch", type=int, default=0, help="samples of a worker; default: those of torch_step.py")
    # Of the processes that this script starts.
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--peer", nargs=4, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.work:
        work(args)
    elif args.peer:
        peer(args)
    else:
        compare(args)


def compare(args):
    def peers(name):
        return _PEERS.get(name, ["independent"]) if args.device == "cpu" else ["independent"]

    times = {}
    for number in range(args.rounds):
        for name in args.models.split(","):
            row = times.setdefault(name, {})
            for kind in peers(name):
                row.setdefault(kind, []).append(time_peer(name, kind, args))
            steps = max(20, int(args.seconds * 1e3 / row["independent"][-1]))
            row.setdefault("ours", []).append(time_ours(name, steps, args))
            print(f"round {number + 1}, {name}, ms: " +
                  ", ".join(f"{kind} {values[-1]:.2f}" for kind, values in row.items()), flush=True)
    import torch
    print(f"PyTorch {torch.__version__}; medians of {args.rounds} rounds in ms")
    for name, row in times.items():
        medians = {kind: statistics.median(values) for kind, values in row.items()}
        print(f"{name}: " + ", ".join(f"{kind} {median:.2f}" for kind, median in medians.items()) + "; " +
              ", ".join(f"ours/{kind} {medians['ours'] / medians[kind]:.3f}" for kind in peers(name)))
    print(json.dumps(times))


if __name__ == "__main__":
    main()
