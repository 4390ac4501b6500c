"""Encodes and decodes payloads; see proto/ENCODINGS.md."""

import numpy as np

_SMALLEST = np.float32(2**-126)


def flush(values):
    """Returns `values` with denormal numbers replaced by zero."""
    return np.where(np.abs(values) < _SMALLEST, np.copysign(np.float32(0), values),
                    values).astype(np.float32)


def _to_bfloat16(values):
    bits = flush(values).view(np.uint32)
    rounded = (bits + np.uint32(0x7FFF) + (bits >> 16 & 1)) >> 16
    nan = bits >> 16 & 0x8000 | 0x7FC0
    return np.where(np.isnan(values), nan, rounded).astype('<u2')


def _from_bfloat16(halves):
    return flush((halves.astype(np.uint32) << 16).view(np.float32))


def _to_float16(values):
    with np.errstate(over='ignore'):
        halves = flush(values).astype('<f2').view('<u2')
    sign = values.view(np.uint32) >> 16 & 0x8000
    return np.where(np.isnan(values), sign | 0x7E00, halves).astype('<u2')


def round_to(encoding, values):
    """Returns the value of a node of the tree: rounded if `encoding` has 16 bits."""
    if encoding == 'BFLOAT16':
        return _from_bfloat16(_to_bfloat16(values))
    if encoding == 'FLOAT16':
        return decode('FLOAT16', _to_float16(values).tobytes(), len(values))
    return values


def row_encoding(job):
    """Returns the encoding of rows and of their gradients."""
    dtype = job.sparse.WireDtype.Name(job.sparse.wire_dtype)
    if dtype == 'INT8':
        return 'EIGHT_BIT_ROWS'
    return job.exchange.WireDtype.Name(job.exchange.wire_dtype) \
        if dtype == 'WIRE_DTYPE_UNSPECIFIED' else dtype


def row_bytes(encoding, dim):
    """Returns the size of an encoded row."""
    return {'FLOAT32': 4 * dim, 'EIGHT_BIT_ROWS': 1 + dim}.get(encoding, 2 * dim)


def _eight_bit_rows(values):
    """Returns the scales of rows, uint8, and their integers, int8."""
    values = flush(values)
    bits = values.view(np.uint32) & 0x7FFFFFFF
    # 127 times a power of two has the fraction 0x7e0000: larger ones carry.
    scales = (bits.max(axis=1).astype(np.int64) + 0x1FFFF >> 23) - 6
    scales = np.where(scales > 248, 255, np.maximum(scales, 1))
    inverse = np.where(scales == 255, 0, np.ldexp(1.0, 127 - scales))
    with np.errstate(invalid='ignore'):
        integers = np.rint(values.astype(np.float64) * inverse[:, np.newaxis])
    integers[scales == 255] = 0
    return scales.astype(np.uint8), integers.astype(np.int8)


def _from_eight_bit_rows(scales, integers):
    factors = np.where(scales == 255, np.nan,
                       np.ldexp(1.0, scales.astype(np.int64) - 127))
    return (integers * factors[:, np.newaxis]).astype(np.float32)


def round_rows(encoding, values):
    """Returns the value of a node of the tree, for rows: float32 [rows, dim]."""
    if encoding == 'EIGHT_BIT_ROWS' and values.size:
        return _from_eight_bit_rows(*_eight_bit_rows(values))
    return round_to(encoding, values.reshape(-1)).reshape(values.shape)


def encode_rows(encoding, values):
    """Returns the bytes of rows, float32 [rows, dim]."""
    if encoding == 'EIGHT_BIT_ROWS':
        if not values.size:
            return b''
        scales, integers = _eight_bit_rows(values)
        return np.concatenate([scales.view(np.int8)[:, np.newaxis], integers],
                              axis=1).tobytes()
    if encoding == 'BFLOAT16':
        return _to_bfloat16(values.reshape(-1)).tobytes()
    if encoding == 'FLOAT16':
        return _to_float16(values.reshape(-1)).tobytes()
    return values.astype('<f4').tobytes()


def decode_rows(encoding, payload, rows, dim):
    """Returns rows, float32 [rows, dim]."""
    if encoding == 'EIGHT_BIT_ROWS':
        parts = np.frombuffer(payload, np.int8, count=rows * (1 + dim))
        parts = parts.reshape(rows, 1 + dim)
        return _from_eight_bit_rows(parts[:, 0].view(np.uint8), parts[:, 1:])
    return decode(encoding, payload, rows * dim).reshape(rows, dim)


def decode(encoding, payload, count):
    if encoding == 'FLOAT32':
        return np.frombuffer(payload, '<f4', count=count)
    if encoding == 'BFLOAT16':
        return _from_bfloat16(np.frombuffer(payload, '<u2', count=count))
    if encoding == 'FLOAT16':
        halves = np.frombuffer(payload, '<u2', count=count)
        with np.errstate(invalid='ignore'):
            return halves.view('<f2').astype(np.float32)
    if encoding == 'TOP_K':
        sent = len(payload) // 8
        values = np.zeros(count, np.float32)
        values[np.frombuffer(payload, '<u4', count=sent)] = np.frombuffer(
            payload, '<f4', offset=4 * sent)
        return values
    scales = -(-count // 256)
    scale = np.repeat(np.frombuffer(payload, '<f4', count=scales), 256)[:count]
    integers = np.frombuffer(payload, 'i1', offset=4 * scales, count=count)
    return flush(integers.astype(np.float32) * scale)


class GradientEncoder:
    """Encodes the contributions to one chunk, and keeps what compression omits."""

    def __init__(self, exchange, elements):
        method = exchange.compression.WhichOneof('method')
        if method is None:
            self.encoding = exchange.WireDtype.Name(exchange.wire_dtype)
        else:
            self.encoding = {'top_k': 'TOP_K', 'eight_bit': 'EIGHT_BIT'}[method]
        self.fraction = exchange.compression.top_k.fraction
        self.residual = np.zeros(elements, np.float32)

    def encode(self, values):
        if self.encoding == 'FLOAT32':
            return values.astype('<f4').tobytes()
        if self.encoding == 'BFLOAT16':
            return _to_bfloat16(values).tobytes()
        if self.encoding == 'FLOAT16':
            return _to_float16(values).tobytes()
        self.residual = flush(self.residual + values)
        return self._top_k() if self.encoding == 'TOP_K' else self._eight_bit()

    def _top_k(self):
        count = max(1, int(np.floor(self.fraction * len(self.residual) + 0.5)))
        magnitudes = self.residual.view(np.uint32) & 0x7FFFFFFF
        places = np.sort(np.argsort(-magnitudes.astype(np.int64),
                                    kind='stable')[:count])
        places = places[magnitudes[places] > 0]
        values = self.residual[places]
        self.residual[places] = 0
        return places.astype('<u4').tobytes() + values.astype('<f4').tobytes()

    def _eight_bit(self):
        scales, integers = [], []
        for begin in range(0, len(self.residual), 256):
            block = self.residual[begin:begin + 256]
            largest = np.abs(block).max()
            scale, rounded = np.float32(0), np.zeros_like(block)
            if not np.isfinite(largest):
                scale = np.float32('nan')
            elif largest >= np.float32(2**-100):
                scale = largest / np.float32(127)
                rounded = np.rint(flush(block * (np.float32(127) / largest)))
                block -= flush(rounded * scale)
                block[:] = flush(block)
            scales.append(scale)
            integers.append(rounded.astype('i1'))
        return np.array(scales, '<f4').tobytes() + np.concatenate(integers).tobytes()
