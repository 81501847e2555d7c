"""native/bind/xla_ffi.hpp says of XLA's C interface what XLA's own header says."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

jax = pytest.importorskip("jax")
NATIVE = Path(__file__).parents[2] / "native"
COMPILER = shutil.which("c++")
# ours, XLA's, and the fields of both
STRUCTURES = {
    ("Extension", "InternalExtension"): {"kind": "type", "next": "next"},
    ("Buffer", "Buffer"): {"dtype": "dtype", "data": "data", "rank": "rank", "dims": "dims"},
    ("Span", "ByteSpan"): {"start": "ptr", "length": "len"},
    ("Buffers", "Args"): {"count": "size", "kinds": "types", "each": "args"},
    ("Buffers", "Rets"): {"count": "size", "kinds": "types", "each": "rets"},
    ("Attributes", "Attrs"): {"count": "size", "kinds": "types", "names": "names", "each": "attrs"},
    ("Version", "Api_Version"): {"major": "major_version", "minor": "minor_version"},
    ("Metadata", "Metadata"): {"version": "api_version", "traits": "traits"},
    ("MetadataExtension", "Metadata_Extension"): {"metadata": "metadata"},
    ("ErrorArguments", "Error_Create_Args"): {"message": "message", "code": "errc"},
    ("Api", "Api"): {"version": "api_version", "error": "XLA_FFI_Error_Create"},
    ("Frame", "CallFrame"): {
        name: {"context": "ctx", "arguments": "args", "results": "rets", "attributes": "attrs"}.get(
            name, name
        )
        for name in ("api", "context", "stage", "arguments", "results", "attributes")
    },
}
BEFORE = {"InternalExtension": "Extension_Base"}  # names in API 0.3
VALUES = {
    "METADATA": "Extension_Metadata",
    "STRING": "AttrType_STRING",
    "INVALID_ARGUMENT": "Error_Code_INVALID_ARGUMENT",
    "RESOURCE_EXHAUSTED": "Error_Code_RESOURCE_EXHAUSTED",
    "INTERNAL": "Error_Code_INTERNAL",
    "EXECUTE": "ExecutionStage_EXECUTE",
    **{name: f"DataType_{name}" for name in ("S32", "F32", "F64", "C64", "C128")},
}


@pytest.mark.skipif(COMPILER is None, reason="there is no C++ compiler")
def test_every_field_is_where_it_is(tmp_path: Path) -> None:
    header = Path(jax.ffi.include_dir()) / "xla" / "ffi" / "api" / "c_api.h"
    if not header.exists():
        pytest.skip("jaxlib has no headers here")
    tests = [f"xla::{ours} == XLA_FFI_{theirs}" for ours, theirs in VALUES.items()]
    tests += ["xla::MAJOR == XLA_FFI_API_MAJOR", "xla::MINOR <= XLA_FFI_API_MINOR"]
    said = header.read_text()
    for (ours, theirs), fields in STRUCTURES.items():
        theirs = theirs if f"}} XLA_FFI_{theirs};" in said else BEFORE.get(theirs, theirs)
        for own, other in fields.items():
            tests += [
                f"offsetof(xla::{ours}, {own}) == offsetof(XLA_FFI_{theirs}, {other})",
                f"sizeof(xla::{ours}::{own}) == sizeof(XLA_FFI_{theirs}::{other})",
            ]
    source = tmp_path / "same.cpp"
    lines = [f'#include "{NATIVE / "bind" / "xla_ffi.hpp"}"', f'#include "{header}"']
    source.write_text("\n".join(lines + [f'static_assert({t}, "");' for t in tests]))
    assert COMPILER is not None
    done = subprocess.run(
        [COMPILER, "-std=c++17", "-fsyntax-only", "-Wno-invalid-offsetof", str(source)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
