"""XXH3-64 with seed 0 and the default secret, for inputs above 240 bytes.

The algorithm is Yann Collet's (https://xxhash.com). Where the package `xxhash`
can be installed, xxhash.xxh3_64_intdigest(data) is the same function.
"""

import numpy as np

_SECRET = np.frombuffer(bytes.fromhex(
    'b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671f'
    'cb79e64eccc0e578825ad07dccff7221b8084674f743248ee03590e6813a264c'
    '3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8'
    'a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364'
    'eac5ac8334d3ebc3c581a0fffa1363eb170ddd51b7f0da49d316552629d4689e'
    '2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e'),
    np.uint8)
_MASK = 2**64 - 1
_PRIME32 = (0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D)
_PRIME64 = (0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9,
            0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5)
_BLOCK_STRIPES = 16
_32 = np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)


def _lanes(data, offset=0, count=8):
    return np.frombuffer(data, '<u8', count=count, offset=offset)


_KEYS = np.stack([_lanes(_SECRET.tobytes(), 8 * i) for i in range(_BLOCK_STRIPES)])


def _sums(stripes, keys):
    """Returns what the stripes [..., n, 8] add to the accumulators."""
    keyed = stripes ^ keys
    product = (keyed & _LOW) * (keyed >> _32)
    swapped = stripes.reshape(*stripes.shape[:-1], 4, 2)[..., ::-1]
    return (product + swapped.reshape(stripes.shape)).sum(axis=-2, dtype=np.uint64)


def hash64(data):
    size = len(data)
    if size <= 240:
        raise ValueError(f'{size} bytes of data; this function hashes at least 241: '
                         'use the package xxhash for tiny files')
    accumulators = np.array(
        [_PRIME32[2], *_PRIME64[:4], _PRIME32[1], _PRIME64[4], _PRIME32[0]], np.uint64)
    secret = _SECRET.tobytes()
    blocks = (size - 1) // (64 * _BLOCK_STRIPES)
    whole = _lanes(data, count=blocks * 8 * _BLOCK_STRIPES)
    for added in _sums(whole.reshape(blocks, _BLOCK_STRIPES, 8), _KEYS):
        accumulators = accumulators + added
        accumulators ^= accumulators >> np.uint64(47)
        accumulators = (accumulators ^ _lanes(secret, 128)) * np.uint64(_PRIME32[0])
    done = blocks * 64 * _BLOCK_STRIPES
    stripes = (size - 1 - done) // 64
    rest = _lanes(data, done, 8 * stripes).reshape(stripes, 8)
    accumulators = accumulators + _sums(rest, _KEYS[:stripes])
    last = _lanes(data, size - 64).reshape(1, 8)
    accumulators = accumulators + _sums(last, _lanes(secret, 192 - 64 - 7))

    mixed = [int(a) ^ int(k) for a, k in zip(accumulators, _lanes(secret, 11))]
    result = size * _PRIME64[0]
    for left, right in zip(mixed[::2], mixed[1::2]):
        product = left * right
        result += (product & _MASK) ^ (product >> 64)
    result &= _MASK
    result ^= result >> 37
    result = result * 0x165667919E3779F9 & _MASK
    return result ^ (result >> 32)
