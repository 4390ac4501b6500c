"""Linear regression with NumPy. Appends each step that it computes, with the learning rate
of the job, to the file `count` of model.external.config. Ends the job before its step
`end`."""

import numpy as np
import tributary

WEIGHTS = np.array([1.5, -2.0, 0.5], np.float32)


def samples(indices):
    x = np.sin(np.outer(indices, [1, 2, 3])).astype(np.float32)
    return x, x @ WEIGHTS


def main():
    session = tributary.connect()
    rate = session.job.spec['optimizer']['sgd']['learning_rate']
    session.declare([tributary.Parameter('weight', np.zeros(3, np.float32))])
    for step in session:
        for batch in step.micro_batches:
            if step.number == session.job.config.get('end'):
                session.end_job()
                break
            x, y = samples(batch.indices)
            error = x @ batch.weights[0] - y
            batch.gradients[0][:] = 2 * error @ x
            with open(session.job.config['count'], 'a', encoding='utf-8') as file:
                print(repr(rate), step.number, batch.number, file=file)
            batch.ready(0)
            batch.finish(np.square(error).sum())
        for piece in step.evaluation:
            x, y = samples(piece.indices)
            error = x @ piece.weights[0] - y
            piece.report(loss_sum=np.square(error).sum(),
                         metrics={'distance': (np.abs(error).sum(), len(error))})


if __name__ == '__main__':
    main()
