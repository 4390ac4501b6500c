"""Computes arenas, sums along the tree and local steps; see proto/STEPS.md."""

import hashlib
import math

import numpy as np

import payloads


class Layout:
    """Offsets of parameters and chunks. parameters: [(name, shape, group)]."""

    def __init__(self, parameters, chunk_elements):
        self.parameters, self.chunk_elements = parameters, chunk_elements
        self.offsets, self.elements = [], 0
        for _, shape, _ in parameters:
            self.offsets.append(self.elements)
            self.elements += -(-math.prod(shape) // 16) * 16
        self.chunks = (self.elements - 1) // chunk_elements + 1
        text = f'tributary-table-1\n{chunk_elements}\n' + ''.join(
            f'{name} {"x".join(map(str, shape))} {group}\n'
            for name, shape, group in parameters)
        self.signature = hashlib.sha256(text.encode()).hexdigest()
        # 1 for elements with weight decay, 0 for other elements.
        self.decays = np.zeros(self.elements, np.float32)
        for view, (_, _, group) in zip(self.views(self.decays), parameters):
            view[...] = group == 'DECAY'

    def chunk(self, number):
        begin = number * self.chunk_elements
        return slice(begin, min(begin + self.chunk_elements, self.elements))

    def views(self, arena):
        """Returns the parameters in an arena, in order, as views without copies."""
        return [arena[offset:offset + math.prod(shape)].reshape(shape)
                for (_, shape, _), offset in zip(self.parameters, self.offsets)]


def nodes(begin, end, leaves):
    """Returns the largest subtrees that together cover leaves [begin, end)."""
    found = []
    while begin < end:
        node, width = leaves + begin, 1
        while node % 2 == 0 and begin + 2 * width <= end:
            node, width = node // 2, 2 * width
        found.append(node)
        begin += width
    return found


def leaves_under(node, leaves):
    width = 1
    while node < leaves:
        node, width = 2 * node, 2 * width
    return range(node - leaves, node - leaves + width)


class Sum:
    """The gradient sum of a node, with its sample count and loss sum."""

    def __init__(self, gradient, samples, loss):
        self.gradient, self.samples, self.loss = gradient, samples, loss

    def plus(self, right, encoding):
        gradient = payloads.flush(self.gradient + right.gradient)
        return Sum(payloads.round_to(encoding, gradient),
                   self.samples + right.samples, self.loss + right.loss)


def node_sum(node, sums, encoding):
    """Returns the sum of the leaves under a node. sums: {leaf node: Sum}."""
    if node in sums:
        return sums[node]
    return node_sum(2 * node, sums, encoding).plus(
        node_sum(2 * node + 1, sums, encoding), encoding)


def half_cosine(first, last, t):
    return last + (first - last) * (1 + math.cos(math.pi * t)) / 2


def learning_rate(job, total_steps, step):
    schedule = job.schedule
    peak = getattr(job.optimizer, job.optimizer.WhichOneof('rule')).learning_rate
    if step < schedule.warmup_steps:
        return peak * (step + 1) / schedule.warmup_steps
    since = step - schedule.warmup_steps
    end = schedule.decay_steps or total_steps
    final = schedule.final_learning_rate
    if schedule.decay in (schedule.CONSTANT, schedule.PLATEAU):
        return peak
    if schedule.decay == schedule.STEP:
        return peak * schedule.decay_factor**(since // schedule.decay_every_steps)
    if schedule.decay == schedule.EXPONENTIAL:
        return peak * schedule.decay_factor**(since / schedule.decay_every_steps)
    if schedule.decay == schedule.TABLE:
        return [entry.learning_rate for entry in schedule.table if entry.step <= step][-1]
    if schedule.decay == schedule.ONE_CYCLE:
        top = schedule.rise_share * end - 1
        if step >= end - 1:
            return final
        if step < top:
            return half_cosine(peak / schedule.rise_divisor, peak, step / top)
        return half_cosine(peak, final, (step - top) / (end - 1 - top))
    if step >= end:
        return final
    progress = since / (end - schedule.warmup_steps)
    if schedule.decay == schedule.LINEAR:
        return final + (peak - final) * (1 - progress)
    if schedule.decay == schedule.POLYNOMIAL:
        return final + (peak - final) * (1 - progress)**schedule.power
    return half_cosine(peak, final, progress)


def gradient_norm(gradient_sum, samples):
    """Returns the norm of the mean gradient; `samples` must be at least 1."""
    return math.sqrt(np.square(gradient_sum, dtype=np.float64).sum()) / samples


class LocalSgd:
    """The weights of one micro-batch during a round of local steps."""

    def __init__(self, job, total_steps, layout, start):
        self.job, self.total_steps, self.decays = job, total_steps, layout.decays
        self.start = self.weights = start
        self.state = [np.zeros_like(start), np.zeros_like(start)]
        self.updates = self.samples = 0

    def step(self, number, gradient_sum, samples):
        """Takes step `number` of the job with the gradient sum of a micro-batch."""
        if samples == 0:
            return
        scale = 1 / samples
        if self.job.clip_norm > 0:
            norm = gradient_norm(gradient_sum, samples)
            if norm + 1e-6 > self.job.clip_norm:
                scale *= self.job.clip_norm / (norm + 1e-6)
        rate = learning_rate(self.job, self.total_steps, number)
        rule = self.job.optimizer.WhichOneof('rule')
        spec = getattr(self.job.optimizer, rule)
        update = getattr(self, '_' + rule)
        self.weights = update(spec, rate, gradient_sum * np.float32(scale))
        self.updates += 1
        self.samples += samples

    def _decayed(self, spec, gradient):
        return gradient + np.float32(spec.weight_decay) * self.decays * self.weights

    def _sgd(self, spec, rate, gradient):
        momentum = np.float32(spec.momentum)
        decayed = self._decayed(spec, gradient)
        velocity = momentum * self.state[0] + decayed
        self.state[0] = velocity
        direction = decayed + momentum * velocity if spec.nesterov else velocity
        return self.weights - np.float32(rate) * direction

    def _adam(self, spec, rate, gradient):
        return self.weights - self._adam_step(spec, rate, self._decayed(spec, gradient))

    def _adamw(self, spec, rate, gradient):
        return self._kept(spec, rate) - self._adam_step(spec, rate, gradient)

    def _kept(self, spec, rate):
        """Returns the weights after decoupled weight decay."""
        decay = spec.weight_decay * self.decays.astype(np.float64)
        return (1 - rate * decay).astype(np.float32) * self.weights

    def _adam_step(self, spec, rate, gradient):
        first, second = self.state
        first = (np.float32(spec.beta1) * first
                 + np.float32(1 - spec.beta1) * gradient)
        second = (np.float32(spec.beta2) * second
                  + np.float32(1 - spec.beta2) * (gradient * gradient))
        self.state = [first, second]
        taken = self.updates + 1
        step_size = np.float32(rate / (1 - spec.beta1**taken))
        root = np.float32(1 / math.sqrt(1 - spec.beta2**taken))
        root = np.sqrt(second) * root + np.float32(spec.epsilon)
        return step_size * (first / root)

    def _adagrad(self, spec, rate, gradient):
        decayed = self._decayed(spec, gradient)
        self.state[0] = self.state[0] + decayed * decayed
        root = np.sqrt(self.state[0]) + np.float32(spec.epsilon)
        rate = np.float32(rate / (1 + self.updates * spec.rate_decay))
        return self.weights - rate * (decayed / root)

    def _rmsprop(self, spec, rate, gradient):
        decayed = self._decayed(spec, gradient)
        square, velocity = self.state
        square = (np.float32(spec.alpha) * square
                  + np.float32(1 - spec.alpha) * (decayed * decayed))
        root = np.sqrt(square) + np.float32(spec.epsilon)
        velocity = np.float32(spec.momentum) * velocity + decayed / root
        self.state = [square, velocity]
        return self.weights - np.float32(rate) * velocity

    def _adadelta(self, spec, rate, gradient):
        decayed = self._decayed(spec, gradient)
        rho, rest = np.float32(spec.rho), np.float32(1 - spec.rho)
        epsilon = np.float32(spec.epsilon)
        square, updates = self.state
        square = rho * square + rest * (decayed * decayed)
        update = np.sqrt(updates + epsilon) / np.sqrt(square + epsilon) * decayed
        self.state = [square, rho * updates + rest * (update * update)]
        return self.weights - np.float32(rate) * update

    def _lion(self, spec, rate, gradient):
        momentum = self.state[0]
        direction = (np.float32(spec.beta1) * momentum
                     + np.float32(1 - spec.beta1) * gradient)
        self.state[0] = (np.float32(spec.beta2) * momentum
                         + np.float32(1 - spec.beta2) * gradient)
        return self._kept(spec, rate) - np.float32(rate) * np.sign(direction)

    def outer_gradient(self):
        return np.float32(self.samples) * (self.start - self.weights)
