"""Linear regression with NumPy. model.external.config: `mistake`, what goes wrong."""

import os
import signal
import threading

import numpy as np
import tributary

RANK = os.environ.get('TRIBUTARY_RANK')
WEIGHTS = np.array([[1.5, -2.0, 0.5]], np.float32)


def samples(indices):
    x = np.stack([np.sin(indices * scale) for scale in (1, 2, 3)], axis=1)
    x = x.astype(np.float32)
    return x, x @ WEIGHTS.T + np.float32(0.25)


def terminate(session):
    """Sends SIGTERM to this process, and returns when the session has been stopped."""
    stopped, stop = threading.Event(), session._library.worker_stop

    def stop_and_tell(handle):
        stop(handle)
        stopped.set()

    session._library.worker_stop = stop_and_tell
    with open(os.environ['MARKER'], 'w', encoding='utf-8'):
        os.kill(os.getpid(), signal.SIGTERM)
    stopped.wait()


def main():
    session = tributary.connect()
    mistake = session.job.config.get('mistake')
    initial = np.random.normal(size=(1, 3)).astype(np.float32)
    if mistake == 'dtype':
        initial = initial.astype(np.float64)
    if mistake == 'no declaration':
        for _ in session:
            pass
    session.declare([tributary.Parameter('weight', initial),
                     tributary.Parameter('bias', np.zeros(1, np.float32), 'no_decay')])
    for step in session:
        if mistake == 'exception' and step.number == 3 and RANK == '1':
            raise RuntimeError('a mistake of worker 1')
        if mistake == 'terminated' and not os.path.exists(os.environ['MARKER']):
            terminate(session)
        for batch in step.micro_batches:
            x, y = samples(batch.indices)
            weight, bias = batch.weights
            if mistake == 'write':
                weight[0] = 1
            # Like dropout, this depends on the seed of the micro-batch.
            keep = (np.random.random(x.shape) < 0.9).astype(np.float32)
            x = x * keep
            error = x @ weight.T + bias - y
            batch.gradients[1][:] = 2 * error.sum(axis=0)
            batch.ready(1)
            if mistake == 'gradient shape':
                batch.gradients[0][:] = np.zeros((1, 4))
            if mistake == 'gradient replaced':
                batch.gradients[0] = 2 * error.T @ x
            batch.gradients[0][:] = 2 * error.T @ x
            if mistake == 'forgotten gradient' and step.number == 3:
                batch.finish(0.0)
                continue
            batch.ready(0)
            if mistake == 'no loss':
                batch.finish()
                continue
            if mistake == 'not finished' and step.number == 3:
                continue
            batch.finish(np.square(error).sum())
        for piece in step.evaluation:
            x, y = samples(piece.indices)
            weight, bias = piece.weights
            error = x @ weight.T + bias - y
            if mistake == 'not reported':
                continue
            piece.report(np.square(error).sum(), (np.abs(error) < 0.1).sum())


if __name__ == '__main__':
    main()
