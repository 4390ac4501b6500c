"""Linear regression, then prints how many bytes malloc has kept of 16 MiB that were freed."""

import ctypes

import linear

BYTES = 16 << 20
FIELDS = ('arena', 'ordblks', 'smblks', 'hblks', 'hblkhd', 'usmblks', 'fsmblks', 'uordblks',
          'fordblks', 'keepcost')


class Mallinfo2(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in FIELDS]


def main():
    linear.main()
    libc = ctypes.CDLL(None)
    libc.malloc.argtypes, libc.malloc.restype = [ctypes.c_size_t], ctypes.c_void_p
    libc.free.argtypes, libc.mallinfo2.restype = [ctypes.c_void_p], Mallinfo2
    libc.free(libc.malloc(BYTES))
    print('kept', libc.mallinfo2().fordblks)


main()
