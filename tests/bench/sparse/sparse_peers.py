#!/usr/bin/env python3
"""Measures updates of rows by PyTorch, and by Paddle's parameter server.

    tests/bench/sparse/sparse_peers.py torch|paddle [ROWS [DIM]]

Prints million rows per second on one core, to compare with what
`bazel run -c opt //tests/bench/sparse:sparse_updates` prints for a table of as many
rows in the same session. Keys are uniform.

torch: EmbeddingBag(sparse=True) with torch.optim.Adagrad, whose gradients are
ones; the time of backward and of the optimizer.

paddle: a MemorySparseTable with SparseAdaGradSGDRule, which keeps one sum of
squares for the first element of a row and one for all others, in the server of
fleet's parameter-server mode; a trainer on loopback pulls and pushes rows with
the operators of static programs. Server and trainer have one core each. Prints
the rates of pulls, of pushes (until the server has applied them all), and of
both in turn; and the rows divided by the server's CPU seconds alone, which leave
out the trainer but contain the server's side of the connection. Needs a Python
with paddlepaddle 3.0.0 and protobuf < 6 (with newer ones, DistributedStrategy
fails: "a_sync_configs is not a attribute"). The synchronous mode (a_sync=False)
ends with a segmentation fault in SendBarrierOp, so the mode is asynchronous.
"""

import json
import os
import socket
import subprocess
import sys
import tempfile
import time

KEYS = 65536
STEPS = 10
# The client sends up to 12 pushes as one message, which may have 64 MiB; longer ones
# are lost.
PADDLE_KEYS = 8192
PADDLE_STEPS = 400


def measure_torch(rows, dim):
    import torch
    torch.set_num_threads(1)
    bag = torch.nn.EmbeddingBag(rows, dim, mode='sum', sparse=True)
    optimizer = torch.optim.Adagrad(bag.parameters(), lr=0.01)
    generator = torch.Generator().manual_seed(1)
    seconds = 0
    for step in range(STEPS + 2):
        keys = torch.randint(rows, (KEYS,), generator=generator)
        offsets = torch.arange(KEYS)
        loss = bag(keys, offsets).sum()
        begin = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        if step >= 2:
            seconds += time.perf_counter() - begin
    return STEPS * KEYS / seconds / 1e6


def paddle_program(rows, dim):
    """Returns the program that pulls and pushes rows, in server and trainer."""
    import paddle
    from paddle.distributed import fleet
    paddle.enable_static()
    fleet.init(fleet.PaddleCloudRoleMaker())
    keys = paddle.static.data('keys', [PADDLE_KEYS, 1], 'int64')
    for name in ('show', 'click'):  # Which divide the gradient; the server reads floats.
        paddle.static.data(name, [PADDLE_KEYS, 1], 'float32')
    vectors = paddle.static.nn.sparse_embedding(
        keys, [rows, dim], param_attr=paddle.ParamAttr(name='table'),
        entry=paddle.distributed.ShowClickEntry('show', 'click'))
    loss = paddle.mean(vectors)
    strategy = fleet.DistributedStrategy()
    strategy.a_sync = True
    table = strategy.sparse_table_configs.add()
    table.table_name = 'table'
    table.table_class = 'MemorySparseTable'
    table.shard_num = 16  # Faster than the default of 1000 with one core.
    accessor = table.accessor
    accessor.accessor_class = 'SparseAccessor'
    accessor.fea_dim = dim + 2
    accessor.embedx_dim = dim - 1
    accessor.embedx_threshold = 0
    for rule in (accessor.embed_sgd_param, accessor.embedx_sgd_param):
        rule.name = 'SparseAdaGradSGDRule'
        rule.adagrad.learning_rate = 0.01
        rule.adagrad.initial_g2sum = 3
        rule.adagrad.initial_range = 0.1
        rule.adagrad.weight_bounds.extend([-100, 100])
    optimizer = fleet.distributed_optimizer(paddle.optimizer.SGD(0.01), strategy)
    optimizer.minimize(loss)
    return paddle.static.default_main_program(), vectors


def serve_paddle(rows, dim):
    from paddle.distributed import fleet
    paddle_program(rows, dim)
    fleet.init_server()
    fleet.run_server()


def train_paddle(rows, dim):
    """The trainer: writes its figures to the file RESULT."""
    import numpy as np
    import paddle
    from paddle.distributed import fleet
    both, vectors = paddle_program(rows, dim)

    def only(*kinds):
        program = both.clone()
        block = program.global_block()
        for number in reversed(range(len(block.ops))):
            if block.ops[number].type not in kinds:
                block._remove_op(number)
        return program

    pull = only('distributed_lookup_table')
    push = only('fill_constant', 'distributed_push_sparse')
    executor = paddle.static.Executor(paddle.CPUPlace())
    executor.run(paddle.static.default_startup_program())
    fleet.init_worker()
    client = paddle.base.core.DistFleetWrapper()
    gradient = np.full((PADDLE_KEYS, 1, dim), 1e-4, np.float32)
    shown = np.ones((PADDLE_KEYS, 1), np.float32)
    server = int(os.environ['SERVER'])

    def run(program, keys, fetch=()):
        feed = {'keys': keys.reshape(PADDLE_KEYS, 1)}
        if program is not pull:
            feed.update(show=shown, click=shown)
        if program is push:
            feed[vectors.name + '@GRAD'] = gradient
        return executor.run(program, feed=feed, fetch_list=list(fetch))

    def cpu_seconds():
        with open(f'/proc/{server}/stat', encoding='ascii') as file:
            fields = file.read().rsplit(')', 1)[1].split()
        return sum(map(int, fields[11:13])) / os.sysconf('SC_CLK_TCK')

    # Creates all rows.
    for begin in range(0, rows, PADDLE_KEYS):
        run(push, np.arange(begin, begin + PADDLE_KEYS) % rows + 1)
    client.client_flush()
    generator = np.random.default_rng(1)
    result = {}
    for name, program in (('pull', pull), ('push', push), ('both', both)):
        batches = [generator.integers(1, rows + 1, PADDLE_KEYS)
                   for _ in range(PADDLE_STEPS + 2)]
        for batch in batches[:2]:
            run(program, batch)
        client.client_flush()
        ends = batches[2], batches[-1]
        before = [run(pull, batch, [vectors])[0] for batch in ends]

        def unchanged():
            """Returns how many rows of the first and of the last batch are as before."""
            return sum((run(pull, batch, [vectors])[0] == old).all(-1).sum()
                       for batch, old in zip(ends, before))

        begin, cpu = time.perf_counter(), cpu_seconds()
        for batch in batches[2:]:
            run(program, batch)
        if program is not pull:
            # Pushes wait in the client, and flush does not wait for the last ones.
            client.client_flush()
            while unchanged():
                if time.perf_counter() > begin + 600:
                    sys.exit(f'sparse_peers.py: {name} has lost gradients')
        seconds, cpu = time.perf_counter() - begin, cpu_seconds() - cpu
        result[name] = [PADDLE_STEPS * PADDLE_KEYS / time_ / 1e6
                        for time_ in (seconds, cpu)]
    with open(f'/proc/{server}/status', encoding='ascii') as file:
        memory = next(line for line in file if line.startswith('VmRSS'))
    result['gigabytes'] = int(memory.split()[1]) / 1e6
    with open(os.environ['RESULT'], 'w', encoding='ascii') as file:
        json.dump(result, file)
    fleet.stop_worker()


def measure_paddle(rows, dim):
    with socket.socket() as free:
        free.bind(('127.0.0.1', 0))
        port = free.getsockname()[1]
    cores = sorted(os.sched_getaffinity(0))

    def start(part, core, log, **environment):
        environment = {
            **os.environ, 'FLAGS_enable_pir_api': '0', 'OMP_NUM_THREADS': '1',
            'POD_IP': '127.0.0.1', 'PADDLE_PORT': str(port), 'PADDLE_TRAINERS_NUM': '1',
            'PADDLE_PSERVERS_IP_PORT_LIST': f'127.0.0.1:{port}',
            'PADDLE_TRAINER_ID': '0', **environment}
        return subprocess.Popen(
            [sys.executable, '-W', 'ignore', os.path.abspath(__file__), part, str(rows),
             str(dim)], env=environment, stdout=log, stderr=log,
            preexec_fn=lambda: os.sched_setaffinity(0, {core}))

    def listens():
        with socket.socket() as probe:
            return probe.connect_ex(('127.0.0.1', port)) == 0

    with tempfile.TemporaryDirectory() as folder:
        result = os.path.join(folder, 'result.json')
        with open(os.path.join(folder, 'log'), 'w+', encoding='utf-8') as log:
            server = start('paddle-server', cores[0], log, TRAINING_ROLE='PSERVER')
            try:
                while not listens() and server.poll() is None:
                    time.sleep(0.1)
                start('paddle-trainer', cores[-1], log, TRAINING_ROLE='TRAINER',
                      SERVER=str(server.pid), RESULT=result).wait()
            finally:
                server.kill()
                server.wait()
            if not os.path.exists(result):
                log.seek(0)
                sys.exit(log.read()[-4000:])
        with open(result, encoding='ascii') as file:
            return json.load(file)


def main():
    part = sys.argv[1] if len(sys.argv) > 1 else ''
    rows = int(sys.argv[2]) if len(sys.argv) > 2 else 15_000_000
    dim = int(sys.argv[3]) if len(sys.argv) > 3 else 64
    if part == 'torch':
        print(f'torch: {measure_torch(rows, dim):.3f} million rows/s, '
              f'{rows} rows of {dim}')
    elif part == 'paddle':
        result = measure_paddle(rows, dim)
        memory = result.pop('gigabytes')
        for name, (rate, server_rate) in result.items():
            print(f'paddle, {name}: {rate:.3f} million rows/s; '
                  f'{server_rate:.3f} by CPU time of the server')
        print(f'paddle: {rows} rows of {dim}, server {memory:.2f} GB')
    elif part == 'paddle-server':
        serve_paddle(rows, dim)
    elif part == 'paddle-trainer':
        train_paddle(rows, dim)
    else:
        sys.exit(__doc__)


if __name__ == '__main__':
    main()
