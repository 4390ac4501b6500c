"""Computes random numbers and the order of samples; see proto/SAMPLING.md."""

import math

import numpy as np

NAME = 'tributary-1'

INITIAL_VALUES, DROPOUT, SAMPLE_ORDER, MADE_UP_DATA = 1, 2, 3, 6

_LOW = np.uint64(0xFFFFFFFF)
_32 = np.uint64(32)


def philox(counter, key):
    """Philox4x32-10. counter: four uint64 arrays of 32-bit words; key: two ints."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(10):
        p0 = np.uint64(0xD2511F53) * c0
        p1 = np.uint64(0xCD9E8D57) * c2
        c0, c1, c2, c3 = ((p1 >> _32) ^ c1 ^ np.uint64(k0), p1 & _LOW,
                          (p0 >> _32) ^ c3 ^ np.uint64(k1), p0 & _LOW)
        k0 = (k0 + 0x9E3779B9) & 0xFFFFFFFF
        k1 = (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return np.stack([c0, c1, c2, c3], axis=-1)


def blocks(seed, purpose, a, b, numbers):
    """Returns the blocks with these numbers of a stream: uint64 [..., 4]."""
    numbers = np.asarray(numbers, np.uint64)
    counter = (numbers & _LOW, numbers >> _32,
               np.full_like(numbers, a), np.full_like(numbers, b))
    key = ((seed & 0xFFFFFFFF) ^ (purpose * 0x85EBCA6B & 0xFFFFFFFF),
           (seed >> 32) ^ purpose)
    return philox(counter, key)


def words(seed, purpose, a, b, count):
    """Returns the first `count` numbers of a stream."""
    return blocks(seed, purpose, a, b, np.arange((count + 3) // 4)).ravel()[:count]


def uniform(numbers):
    """Converts random numbers to uniform floats in [0, 1)."""
    return (numbers >> np.uint64(8)).astype(np.float32) * np.float32(2**-24)


def permutation(seed, epoch, samples, places):
    """Returns the samples at the given places in the order of the epoch."""
    left_size = math.isqrt(samples - 1) + 1
    right_size = -(-samples // left_size)

    def random(number, half, size):
        block = blocks(seed, SAMPLE_ORDER, epoch & 0xFFFFFFFF, epoch >> 32,
                       half + np.uint64(number << 32))
        size = np.uint64(size)
        return (block[..., 1] * size + (block[..., 0] * size >> _32)) >> _32

    def encrypt(values):
        left, right = values // np.uint64(right_size), values % np.uint64(right_size)
        for number in range(0, 8, 2):
            left = (left + random(number, right, left_size)) % np.uint64(left_size)
            right = ((right + random(number + 1, left, right_size))
                     % np.uint64(right_size))
        return left * np.uint64(right_size) + right

    values = encrypt(np.asarray(places, np.uint64))
    while True:  # Cycle walking.
        outside = values >= np.uint64(samples)
        if not outside.any():
            return values.astype(np.int64)
        values[outside] = encrypt(values[outside])


def steps_per_epoch(samples, batch):
    return (samples - 1) // batch + 1


def micro_batch(seed, samples, batch, micro_batches, step, number):
    """Returns the epoch and the samples of a micro-batch."""
    epoch, place = divmod(step, steps_per_epoch(samples, batch))
    size = batch // micro_batches
    begin = min(samples, place * batch + number * size)
    end = min(samples, begin + size)
    return epoch, permutation(seed, epoch, samples, np.arange(begin, end))
