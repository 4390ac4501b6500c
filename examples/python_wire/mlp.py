"""Computes the built-in model `mlp`; see proto/MODELS.md."""

import math

import numpy as np

import sampling


def table(job, data):
    """Returns [(name, shape, group)] and the fan-in of each parameter."""
    outputs = 1 if _regression(job) else data.classes
    inputs, parameters, fan_in = data.sample_values, [], []
    names = [f'hidden.{i}' for i in range(len(job.model.mlp.hidden))] + ['output']
    for name, units in zip(names, [*job.model.mlp.hidden, outputs]):
        parameters += [(f'{name}.weight', (units, inputs), 'DECAY'),
                       (f'{name}.bias', (units,), 'NO_DECAY')]
        fan_in += [inputs, inputs]
        inputs = units
    return parameters, fan_in


def initial_values(seed, layout, fan_in):
    arena = np.zeros(layout.elements, np.float32)
    for index, (view, inputs) in enumerate(zip(layout.views(arena), fan_in)):
        numbers = sampling.words(seed, sampling.INITIAL_VALUES, 0, index, view.size)
        bound = np.float32(1 / math.sqrt(inputs))
        view[...] = (bound * (2 * sampling.uniform(numbers) - 1)).reshape(view.shape)
    return arena


def _regression(job):
    return job.model.loss == job.model.MEAN_SQUARED_ERROR


def _gelu(x):
    """Returns GELU and its derivative."""
    c, a = np.float32(math.sqrt(2 / math.pi)), np.float32(0.044715)
    t = np.tanh(c * (x + a * x * x * x))
    half = np.float32(0.5)
    slope = c * (1 + 3 * a * x * x)
    return half * x * (1 + t), half * (1 + t) + half * x * (1 - t * t) * slope


class Mlp:
    def __init__(self, job, layout):
        self.job, self.layout, self.spec = job, layout, job.model.mlp
        self.rate = np.float32(self.spec.dropout)

    def _activation(self, x):
        if self.spec.activation == 2:  # GELU
            return _gelu(x)
        return np.maximum(x, np.float32(0)), (x > 0).astype(np.float32)

    def _dropout(self, shape, step, number, layer):
        numbers = sampling.words(
            self.job.seed, sampling.DROPOUT, step & 0xFFFFFFFF,
            4096 * number + layer, math.prod(shape)).reshape(shape)
        keep = np.float32(1) / (np.float32(1) - self.rate)
        return np.where(sampling.uniform(numbers) >= self.rate, keep, np.float32(0))

    def _loss(self, outputs, targets):
        """Returns the loss sum, the correct predictions and the outputs' gradient."""
        if _regression(self.job):
            error = outputs[:, 0] - targets
            return float(np.square(error, dtype=np.float64).sum()), 0, 2 * error[:, None]
        shifted = outputs - outputs.max(axis=1, keepdims=True)
        exponentials = np.exp(shifted)
        sums = exponentials.sum(axis=1, keepdims=True)
        rows = np.arange(len(targets))
        losses = np.log(sums[:, 0]) - shifted[rows, targets]
        gradient = exponentials / sums
        gradient[rows, targets] -= 1
        correct = int((outputs.argmax(axis=1) == targets).sum())
        return float(losses.sum(dtype=np.float64)), correct, gradient

    def evaluate(self, arena, features, targets):
        """Returns the loss sum and the number of correct predictions."""
        views, x = self.layout.views(arena), features
        for i in range(0, len(views) - 2, 2):
            x, _ = self._activation(x @ views[i].T + views[i + 1])
        return self._loss(x @ views[-2].T + views[-1], targets)[:2]

    def gradient(self, arena, features, targets, step, number):
        """Returns the gradient sum of a micro-batch, as an arena, and its loss sum."""
        gradient = np.zeros_like(arena)
        if len(targets) == 0:
            return gradient, 0.0
        views, into = self.layout.views(arena), self.layout.views(gradient)
        inputs, slopes, x = [], [], features
        layers_each = 3 if self.rate > 0 else 2
        for i in range(0, len(views) - 2, 2):
            inputs.append(x)
            x, slope = self._activation(x @ views[i].T + views[i + 1])
            if self.rate > 0:
                mask = self._dropout(x.shape, step, number, i // 2 * layers_each + 2)
                x, slope = x * mask, slope * mask
            slopes.append(slope)
        inputs.append(x)
        loss, _, back = self._loss(x @ views[-2].T + views[-1], targets)
        for i in range(len(views) - 2, -1, -2):
            np.matmul(back.T, inputs[i // 2], out=into[i])
            back.sum(axis=0, out=into[i + 1])
            if i > 0:
                back = (back @ views[i]) * slopes[i // 2 - 1]
        return gradient, loss
