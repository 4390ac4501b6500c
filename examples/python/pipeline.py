"""A network whose layers are divided among the processes of a group, which is one worker:

    tributary train digits.textproto --worker-command 'torchrun --nproc_per_node 2 pipeline.py'
"""
from datetime import timedelta

import digits
import tributary
from stages import Stage
from torch import distributed, nn


def make_network():
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3, padding=1), nn.ReLU(), nn.Flatten(),
        nn.Linear(16 * 6 * 6, 64), nn.ReLU(), nn.Linear(64, 10))


def lead(session, network, compute):
    """Process 0 takes part in the job, and tells the others what to compute."""
    session.declare([tributary.Parameter(name, parameter.detach().numpy())
                     for name, parameter in network.named_parameters()])
    for step in session:
        for batch in step.micro_batches:
            distributed.broadcast_object_list([(True, batch.indices)])
            loss, _ = compute(True, batch.indices, batch.weights, batch.gradients)
            for parameter in reversed(range(len(session.parameters))):
                batch.ready(parameter)
            batch.finish(loss)
        for piece in step.evaluation:
            distributed.broadcast_object_list([(False, piece.indices)])
            piece.report(*compute(False, piece.indices, piece.weights))
    distributed.broadcast_object_list([None])


def follow(compute):
    distributed.broadcast_object_list(order := [None])
    while order[0]:
        compute(*order[0])
        distributed.broadcast_object_list(order)


def main():
    # The group waits for other workers as long as it takes.
    distributed.init_process_group('gloo', timeout=timedelta(days=365))
    session = tributary.connect() if distributed.get_rank() == 0 else None
    network = make_network()
    data = {True: digits.make_digits(digits.SAMPLES, seed=1),
            False: digits.make_digits(digits.TEST_SAMPLES, seed=2)}
    stage = Stage(network, sample=data[True][0][:1])

    def compute(train, indices, weights=(), gradients=()):
        return stage.compute(*(d[indices] for d in data[train]), train, weights, gradients)

    follow(compute) if session is None else lead(session, network, compute)


if __name__ == '__main__':
    main()
