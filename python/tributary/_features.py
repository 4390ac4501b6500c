"""The features of a job whose keys have rows in tables on the servers."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Iterable, Mapping, Optional, Union

import numpy as np

from . import _native
from .errors import Error

if TYPE_CHECKING:
    import torch

# Numbers of keys: an array or a tensor of integers.
Keys = Union[np.ndarray, 'torch.Tensor']

_POOLINGS = {1: 'sum', 2: 'mean', 3: 'none'}


@dataclass(frozen=True)
class Feature:
    """A feature of the job's field `sparse`.

    Attributes:
        name: the name of the feature.
        table: the name of its table.
        dim: the number of values of a row.
        pooling: how the rows of a bag of keys become a vector: 'sum', 'mean' or, for bags
            of one key, 'none'.
        number: the place of the feature in the job, from 0.
    """
    name: str
    table: str
    dim: int
    pooling: str
    number: int


@dataclass(frozen=True)
class LookUp:
    """Vectors that were looked up; see `MicroBatch.look_up`.

    Attributes:
        feature: the feature.
        vectors: the vectors, float32, of shape [bags, dim].
        number: the number of the look-up in the micro-batch, from 0.
    """
    feature: Feature
    vectors: np.ndarray
    number: int


def read(library: Any, worker: int) -> dict[str, Feature]:
    """Returns the features of a worker's job, by name, in the order of the job."""
    features: dict[str, Feature] = {}
    info = _native.FeatureStruct()
    for number in range(library.worker_features(worker, 0, None)):
        library.worker_features(worker, number, ctypes.byref(info))
        name = info.name.decode()
        features[name] = Feature(name, info.table.decode(), info.dim,
                                 _POOLINGS[info.pooling], number)
    return features


def named(features: Mapping[str, Feature], name: str) -> Feature:
    """Returns the feature `name` of a job."""
    if name in features:
        return features[name]
    known = ', '.join(features)
    raise Error(f'the job has no feature {name!r}; '
                + (f'sparse.feature of the job names {known}' if known else
                   'declare it in sparse.feature of the job'))


def as_keys(keys: Any, feature: str) -> np.ndarray:
    """Returns keys as a contiguous array of uint64. Negative numbers are the keys with
    the same bits."""
    array = keys.detach().cpu().numpy() if hasattr(keys, 'detach') else np.asarray(keys)
    if array.dtype.kind not in 'iu' and array.size:
        raise Error(f'the keys of feature {feature!r} have dtype {array.dtype}, expected '
                    'integers; tributary.keys_of makes keys of texts')
    # A conversion to int64 first, because that of negative numbers is not portable.
    if array.dtype != np.uint64:
        array = array.astype(np.int64).view(np.uint64)
    return np.ascontiguousarray(array.reshape(-1))


def struct_of(feature: Feature, keys: np.ndarray,
              ends: Optional[np.ndarray] = None) -> _native.KeysStruct:
    """Returns the C struct of keys, which must live as long as it."""
    return _native.KeysStruct(feature.number, keys.ctypes.data, len(keys),
                              None if ends is None else ends.ctypes.data,
                              0 if ends is None else len(ends))


def keys_of(texts: Iterable[Union[str, bytes]], feature: str = '') -> np.ndarray:
    """Returns the keys of texts, int64, of shape [texts]: the hashes by which data sets
    with columns make keys of the texts of a feature, so `tributary sparse lookup` finds
    the rows by these texts.

    Args:
        texts: strings, or bytes of any value.
        feature: the name of the feature; empty for features with `shared_keys`.
    """
    key_of, name = _native.library().key_of, feature.encode()
    encoded = [text.encode() if isinstance(text, str) else bytes(text) for text in texts]
    keys = np.fromiter((key_of(name, text, len(text)) for text in encoded), np.uint64,
                       len(encoded))
    return keys.view(np.int64)
