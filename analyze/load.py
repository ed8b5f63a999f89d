"""Bundle folder or chrome trace file -> Trace."""

import hashlib
import json
from pathlib import Path
from typing import Any

from ..capture.bundle import BundleFile, Manifest, is_bundle, read_manifest, verified
from ..capture.errors import BundleError
from . import trace as t
from .columns import Reader
from .decode import Header, decoded, inflated


def load(path: Path | str) -> t.Trace:
    """Read a bundle or a chrome trace (.json, .json.gz) that torch.profiler wrote.

    Raises BundleError, with one sentence, for anything else: missing, empty, cut off, not a trace.
    """
    path = Path(path)
    try:
        is_folder = path.is_dir()
    except OSError as problem:  # a name too long to be one
        raise BundleError(f"{path.name[:80]}… cannot be a path here ({problem.strerror}); check it.") from problem
    return _load_bundle(path) if is_folder else _load_file(path, path, None)


def _load_bundle(folder: Path) -> t.Trace:
    if not is_bundle(folder):
        raise BundleError(f"{folder} is a folder without a manifest.json, so it is no bundle; name a bundle or a trace file.")
    manifest = read_manifest(folder)
    if len(manifest.ranks) != 1:
        raise BundleError(
            f"{folder} holds {len(manifest.ranks)} ranks and this version reads one; name the trace file of one rank."
        )
    return _load_file(folder, verified(folder, manifest.ranks[0].trace), manifest)


def _load_file(given: Path, path: Path, manifest: Manifest | None) -> t.Trace:
    content = _read(path)
    file = decoded(path, inflated(path, content))
    source = _source(given, file.header, t.SourceFile(str(path), hashlib.sha256(content).hexdigest()))
    return Reader(file).trace(path, source, manifest)


def load_snapshot(folder: Path, file: BundleFile) -> dict[str, Any]:
    """A key_averages snapshot of a bundle, as plain JSON."""
    path = verified(folder, file)
    try:
        snapshot = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as damage:
        raise BundleError(f"{path} is not valid JSON ({damage}); capture again.") from damage
    if not isinstance(snapshot, dict) or not isinstance(snapshot.get("rows"), list):
        raise BundleError(f"{path} is not a key_averages snapshot (it has no rows); capture again.")
    return snapshot


def _read(path: Path) -> bytes:
    try:
        content = path.read_bytes()
    except FileNotFoundError as missing:
        raise BundleError(f"{path} does not exist; check the path.") from missing
    except OSError as problem:
        raise BundleError(f"{path} cannot be read: {problem.strerror or problem}.") from problem
    if not content:
        raise BundleError(f"{path} is empty; the capture did not finish writing it, capture again.")
    return content


def _source(given: Path, header: Header, read: t.SourceFile) -> t.Source:
    cuda, hip = _integer(header.cuda), _integer(header.hip)
    distributed = header.distributed if isinstance(header.distributed, dict) else {}
    devices = header.devices if isinstance(header.devices, list) else []
    return t.Source(
        path=str(given),
        files=(read,),
        producer="PyTorch Profiler" if header.schema is not None else "unknown",
        rank=_integer(distributed.get("rank")),
        world_size=_integer(distributed.get("world_size")),
        devices=tuple(str(d.get("name", "unknown")) if isinstance(d, dict) else "unknown" for d in devices),
        runtime=None if cuda is None and hip is None else _runtime_version(cuda or hip or 0, rocm=cuda is None),
        with_shapes=bool(header.record_shapes),
        with_stacks=bool(header.with_stack),
        with_memory=bool(header.profile_memory),
    )


def _integer(value: Any) -> int | None:
    return value if isinstance(value, int) else None


def _runtime_version(number: int, rocm: bool) -> str:
    """CUDA writes 12040 for 12.4; HIP writes 60342133 for 6.3.42133."""
    return f"ROCm {number // 10**7}.{number // 10**5 % 100}" if rocm else f"CUDA {number // 1000}.{number % 1000 // 10}"
