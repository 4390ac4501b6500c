#!/usr/bin/env python3
"""Times one training step of a GPT with torch.distributed.pipelining; prints one JSON object.

    torch_pipeline.py [--schedule SCHEDULE] [--stages 2] [--micro-batches 4] [--samples 4] [--layers 8] [--steps 20]

SCHEDULE is a class of torch.distributed.pipelining without the prefix `Schedule`, such as 1F1B or ZBVZeroBubble, or
`none`: one process, which adds up the gradients of all micro-batches. The model is that of pipeline_speed.py. A process
has one thread; processes exchange activations through Gloo. Schedules with two stages on a process divide the layers
into twice as many parts.
"""
import argparse
import json
import os
import statistics
import sys
import tempfile
import time

# glibc's malloc returns large tensors to the system at every step, which costs PyTorch up to half its speed on the CPU.
# It reads these settings when a process starts, so the processes below get them.
TUNING = {"MALLOC_MMAP_THRESHOLD_": "4294967296", "MALLOC_TRIM_THRESHOLD_": "34359738368",
          "MALLOC_TOP_PAD_": "1073741824", "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}

WIDTH, HEADS, CONTEXT, VOCABULARY = 256, 4, 128, 256
WARM_UP_STEPS = 3
# Stages of each process, and whether the second one runs through the processes backwards.
STAGES_OF_A_PROCESS = {"Interleaved1F1B": (2, False), "LoopedBFS": (2, False), "InterleavedZeroBubble": (2, False),
                       "ZBVZeroBubble": (2, True), "DualPipeV": (2, True)}


def model_part(layers, part, parts):
    """Returns the modules of a part: layers in even ranges, the embedding in the first, the head in the last."""
    import torch
    import torch.nn as nn
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
    from torch_step import Block

    class Embedding(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens, self.positions = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(CONTEXT, WIDTH)

        def forward(self, tokens):
            return self.tokens(tokens) + self.positions(torch.arange(tokens.shape[1]))

    first, last = layers * part // parts, layers * (part + 1) // parts
    modules = [Block(WIDTH, HEADS) for _ in range(first, last)]
    if part == 0:
        modules.insert(0, Embedding())
    if part == parts - 1:
        modules += [nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY, bias=False)]
    return nn.Sequential(*modules)


def loss_of(logits, targets):
    import torch.nn.functional as F
    return F.cross_entropy(logits.reshape(-1, VOCABULARY), targets.reshape(-1))


def measure(step, steps):
    times = []
    for _ in range(WARM_UP_STEPS + steps):
        start = time.monotonic()
        step()
        times.append(time.monotonic() - start)
    return times[WARM_UP_STEPS:]


def run(rank, args, file):
    import torch
    import torch.distributed as dist
    torch.set_num_threads(1)
    torch.manual_seed(rank)
    batch = args.samples * args.micro_batches
    inputs, targets = (torch.randint(VOCABULARY, (batch, CONTEXT)) for _ in range(2))

    if args.schedule == "none":
        model = model_part(args.layers, 0, 1)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)

        def whole_step():
            for part, labels in zip(inputs.chunk(args.micro_batches), targets.chunk(args.micro_batches)):
                (loss_of(model(part), labels) / args.micro_batches).backward()
            optimizer.step()
            optimizer.zero_grad()

        return measure(whole_step, args.steps)

    import torch.distributed.pipelining as pipelining
    # Its first messages, which only open connections, fail over Gloo: sent as int64, received as float32.
    pipelining.PipelineStage._get_init_p2p_neighbors_ops = lambda stage: []
    dist.init_process_group("gloo", rank=rank, world_size=args.stages, init_method=f"file://{file}")
    of_a_process, turns = STAGES_OF_A_PROCESS.get(args.schedule, (1, False))
    parts = args.stages * of_a_process
    numbers = [rank, parts - 1 - rank if turns else rank + args.stages][:of_a_process]
    models = [model_part(args.layers, number, parts) for number in numbers]
    stages = [pipelining.PipelineStage(model, number, parts, torch.device("cpu"))
              for model, number in zip(models, numbers)]
    kind = getattr(pipelining, "Schedule" + args.schedule)
    schedule = kind(stages if of_a_process > 1 else stages[0], args.micro_batches, loss_fn=loss_of)
    optimizer = torch.optim.AdamW([p for model in models for p in model.parameters()], lr=1e-3, fused=True)

    def step():
        schedule.step(*([inputs] if 0 in numbers else []), **({"target": targets} if parts - 1 in numbers else {}))
        optimizer.step()
        optimizer.zero_grad()

    times = measure(step, args.steps)
    dist.destroy_process_group()
    return times


def run_process(rank, args, file, results):
    times = run(rank, args, file)
    if rank == 0:
        results.put(times)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--schedule", default="1F1B")
    parser.add_argument("--stages", type=int, default=2)
    parser.add_argument("--micro-batches", type=int, default=4)
    parser.add_argument("--samples", type=int, default=4)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--steps", type=int, default=20)
    args = parser.parse_args()
    os.environ.update(TUNING)
    import multiprocessing
    context = multiprocessing.get_context("spawn")
    results = context.SimpleQueue()
    with tempfile.TemporaryDirectory() as folder:
        processes = [context.Process(target=run_process, args=(rank, args, folder + "/store", results))
                     for rank in range(1 if args.schedule == "none" else args.stages)]
        for process in processes:
            process.start()
        for process in processes:
            process.join()
        if any(process.exitcode for process in processes):
            raise SystemExit(1)
    times = results.get()
    print(json.dumps({"schedule": args.schedule, "micro_batches": args.micro_batches,
                      "step_ms": round(1e3 * statistics.median(times), 2)}))


if __name__ == "__main__":
    main()
