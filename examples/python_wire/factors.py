"""Computes the built-in model `matrix_factorization` without hidden layers, for
MEAN_SQUARED_ERROR; see proto/MODELS.md."""

import numpy as np


def table(job):
    """Returns [(name, shape, group)]."""
    return [('output.bias', (1,), 'NO_DECAY')]


def initial_values(layout):
    return np.zeros(layout.elements, np.float32)


class MatrixFactorization:
    def __init__(self, job, layout):
        self.layout = layout
        names = [f.name or f.column for f in job.sparse.feature]
        self._items = names.index(job.model.matrix_factorization.item_feature)

    def _towers(self, vectors):
        return (sum(v[:, 1:] for v in vectors[:self._items]),
                sum(v[:, 1:] for v in vectors[self._items:]))

    def _errors(self, arena, vectors, targets):
        users, items = self._towers(vectors)
        outputs = (users * items).sum(axis=1) + sum(v[:, 0] for v in vectors) + arena[0]
        return outputs - targets

    def evaluate(self, arena, vectors, targets):
        """Returns the loss sum. `vectors` has [samples, dim] for each feature."""
        errors = self._errors(arena, vectors, targets)
        return float(np.square(errors, dtype=np.float64).sum())

    def gradient(self, arena, vectors, targets):
        """Returns the gradient sum as an arena, that of each vector, and the loss sum."""
        gradient = np.zeros_like(arena)
        if len(targets) == 0:
            return gradient, [np.zeros_like(v) for v in vectors], 0.0
        errors = self._errors(arena, vectors, targets)
        users, items = self._towers(vectors)
        gradient[0] = (2 * errors).sum()
        of_vectors = []
        for number in range(len(vectors)):
            other = items if number < self._items else users
            of_vectors.append(np.concatenate(
                [np.ones((len(targets), 1), np.float32), other], axis=1)
                * (2 * errors)[:, np.newaxis])
        return gradient, of_vectors, float(np.square(errors, dtype=np.float64).sum())
