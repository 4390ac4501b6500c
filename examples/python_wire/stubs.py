"""Generates the stubs, as proto/WORKER.md describes, and imports them."""

import glob
import importlib
import os
import shutil
import subprocess
import sys
import tempfile

_HERE = os.path.dirname(os.path.abspath(__file__))
_PLUGIN = 'grpc_python_plugin'  # Of Debian's protobuf-compiler-grpc.


def _compiler():
    if shutil.which('protoc') and shutil.which(_PLUGIN):
        return ['protoc', '--plugin=protoc-gen-grpc_python=' + shutil.which(_PLUGIN)]
    return [sys.executable, '-m', 'grpc_tools.protoc']


def load(protos=os.path.join(_HERE, '../../proto')):
    """Returns modules with the names of the .proto files, and *_grpc ones."""
    build = tempfile.mkdtemp(prefix='tributary_wire.')
    try:
        package = os.path.join(build, 'tributary_wire')
        os.mkdir(package)
        for path in glob.glob(os.path.join(protos, '*.proto')):
            with open(path) as source:
                text = source.read().replace('import "proto/', 'import "tributary_wire/')
            with open(os.path.join(package, os.path.basename(path)), 'w') as copy:
                copy.write(text)
        files = sorted(glob.glob(os.path.join(package, '*.proto')))
        subprocess.run([*_compiler(), '-I', build, f'--python_out={build}',
                        f'--grpc_python_out={build}', *files], check=True)
        sys.path.insert(0, build)
        return {name: importlib.import_module(f'tributary_wire.{name}')
                for name in ('job_pb2', 'parameter_server_pb2', 'rendezvous_pb2',
                             'parameter_server_pb2_grpc', 'rendezvous_pb2_grpc')}
    finally:
        sys.path = [entry for entry in sys.path if entry != build]
        shutil.rmtree(build)
