"""The order of samples and the seeds of micro-batches; see proto/SAMPLING.md.

The native library gives a worker only the micro-batches that it has to compute. These
functions are for reading ahead, also in processes that have no session.
"""

from __future__ import annotations

import math

import numpy as np

_DROPOUT, _SAMPLE_ORDER = 2, 3
_LAYERS = 4096  # Streams of a micro-batch.
_LOW = np.uint64(0xFFFFFFFF)
_32 = np.uint64(32)


def _philox(counter: list[np.ndarray], key: tuple[int, int]) -> list[np.ndarray]:
    """Philox4x32-10 of arrays of 32-bit words, which have the type uint64."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(10):
        p0, p1 = np.uint64(0xD2511F53) * c0, np.uint64(0xCD9E8D57) * c2
        c0, c1, c2, c3 = ((p1 >> _32) ^ c1 ^ np.uint64(k0), p1 & _LOW,
                          (p0 >> _32) ^ c3 ^ np.uint64(k1), p0 & _LOW)
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return [c0, c1, c2, c3]


def _blocks(seed: int, purpose: int, a: int, b: int,
            numbers: np.ndarray) -> list[np.ndarray]:
    """Returns the four words of the blocks with these numbers of a stream."""
    key = ((seed & 0xFFFFFFFF) ^ (purpose * 0x85EBCA6B & 0xFFFFFFFF),
           (seed >> 32) ^ purpose)
    return _philox([numbers & _LOW, numbers >> _32, np.full_like(numbers, a),
                    np.full_like(numbers, b)], key)


def _permutation(seed: int, epoch: int, samples: int, places: np.ndarray) -> np.ndarray:
    """Returns the samples at these places in the order of the epoch."""
    left_size = math.isqrt(samples - 1) + 1
    right_size = -(-samples // left_size)

    def random(number: int, half: np.ndarray, size: int) -> np.ndarray:
        low, high, _, _ = _blocks(seed, _SAMPLE_ORDER, epoch & 0xFFFFFFFF, epoch >> 32,
                                  half + np.uint64(number << 32))
        wide = np.uint64(size)
        return (high * wide + (low * wide >> _32)) >> _32

    def encrypt(values: np.ndarray) -> np.ndarray:
        left, right = values // np.uint64(right_size), values % np.uint64(right_size)
        for number in range(0, 8, 2):
            left = (left + random(number, right, left_size)) % np.uint64(left_size)
            right = ((right + random(number + 1, left, right_size))
                     % np.uint64(right_size))
        return left * np.uint64(right_size) + right

    values = encrypt(places.astype(np.uint64))
    outside = values >= np.uint64(samples)
    while outside.any():  # Cycle walking.
        values[outside] = encrypt(values[outside])
        outside = values >= np.uint64(samples)
    return values.astype(np.int64)


def places(samples: int, batch: int, micro_batches: int, step: int,
           number: int) -> tuple[int, int, int]:
    """Returns the epoch of a micro-batch, and its first and last + 1 place in it."""
    epoch, place = divmod(step, (samples - 1) // batch + 1)
    size = batch // micro_batches
    begin = min(samples, place * batch + number * size)
    return epoch, begin, min(samples, begin + size)


def indices(seed: int, samples: int, batch: int, micro_batches: int, step: int,
            number: int) -> np.ndarray:
    """Returns the samples of a micro-batch."""
    epoch, begin, end = places(samples, batch, micro_batches, step, number)
    return _permutation(seed, epoch, samples, np.arange(begin, end))


def random_seed(seed: int, step: int, number: int) -> int:
    """Returns `MicroBatch.seed` of a micro-batch."""
    words = _blocks(seed, _DROPOUT, step & 0xFFFFFFFF, number * _LAYERS,
                    np.zeros(1, np.uint64))
    return int(words[0][0]) << 32 | int(words[1][0])
