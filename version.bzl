"""The version of Tributary: the only place that states it.

docs/cpp.md describes what changes it.
"""

VERSION = "0.7.0"

_MAJOR, _MINOR, _PATCH = VERSION.split(".")

# The library's file name ends in this number: libtributary.so.0.
SOVERSION = _MAJOR

# The version of the library's symbols. The loader refuses to start a program
# that was linked with another one. Before version 1, every minor version may
# change the interface.
SYMBOL_VERSION = "TRIBUTARY_" + (_MAJOR if _MAJOR != "0" else "0." + _MINOR)
