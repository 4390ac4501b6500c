"""Linear regression with an engine of its own, which needs only NumPy:

    tributary train regression.textproto --worker-command 'python3 regression.py'
"""
import numpy as np
import tributary


def samples(indices):
    """Returns the inputs [samples, 3] and the targets of these samples."""
    x = np.sin(np.outer(indices, [1, 2, 3])).astype(np.float32)
    return x, x @ np.array([1.5, -2, 0.5], np.float32) + np.float32(0.25)


def main():
    session = tributary.connect()
    initial = np.random.normal(size=3).astype(np.float32)
    session.declare([tributary.Parameter('weight', initial),
                     tributary.Parameter('bias', np.zeros(1, np.float32), 'no_decay')])
    for step in session:
        for batch in step.micro_batches:
            x, y = samples(batch.indices)
            weight, bias = batch.weights
            error = x @ weight + bias - y
            batch.gradients[1][:] = 2 * error.sum()
            batch.ready(1)  # From the last parameter to the first.
            batch.gradients[0][:] = 2 * error @ x
            batch.ready(0)
            batch.finish(np.square(error).sum())
        for piece in step.evaluation:
            x, y = samples(piece.indices)
            weight, bias = piece.weights
            piece.report(loss_sum=np.square(x @ weight + bias - y).sum())


if __name__ == '__main__':
    main()
