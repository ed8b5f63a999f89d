"""Bundle, trace file, folder of ranks, archive, URL or standard input -> Trace, one for each rank."""

import shlex
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from ..capture.errors import BundleError
from . import trace as t
from .loading import snapshots
from .loading.columns import Collected
from .loading.events import Header
from .loading.producers import producer_of
from .loading.reading import Findings, NoEvents, RawBackslashes, Reader
from .loading.sources import Input, detail_inputs, inputs
from .loading.streams import LARGEST_BYTES, File, Progress, Reading, blocks, collector_paused, is_long, refuse_altered
from .loading.tables import Read, details, host_whole_until, lacks_events, traces_of, troubles
from .loading.trouble import warnings
from .loading.whole import whole_sentence, whole_steps


def load(
    named: Path | str,
    *,
    largest_bytes: int = LARGEST_BYTES,
    processes: int = 1,
    cache: Path | None = None,
    progress: Progress | None = None,
) -> t.Trace:
    """Read the one rank that a bundle or a trace holds; arguments and errors as `load_run`, and BundleError for several ranks."""
    found = inputs([named])
    if len(found) != 1:
        raise BundleError(f"{named} holds {len(found)} ranks; name the trace file of one of them.")
    traces = _load(found[0], largest_bytes, processes, cache, progress)
    if len(traces) != 1:
        raise BundleError(f"{named} holds {len(traces)} ranks, merged into one file; load_run gives each of them.")
    return traces[0]


def load_run(
    named: Sequence[Path | str],
    *,
    largest_bytes: int = LARGEST_BYTES,
    processes: int = 1,
    cache: Path | None = None,
    progress: Progress | None = None,
) -> tuple[t.Trace, ...]:
    """Read all ranks of a run, in their order: bundles, chrome traces of any packing, folders and globs of them, URLs, `-`.

    Several ranks that were merged into one file come apart.

    `largest_bytes`: how much text an archive may hold. `processes`: how many may work at once; they are spawned, so a script
    that asks for more than one needs the usual guard around its main part. `cache`: a folder that keeps what was parsed.
    `progress`: called with bytes read, bytes in all (None where not known) and events. BundleError: one sentence.
    """
    found = inputs(named)
    if len(found) == 1:
        return by_rank(_load(found[0], largest_bytes, processes, cache, progress))
    one = partial(_load, largest_bytes=largest_bytes, processes=1, cache=cache)
    if processes < 2 or any(given.file.path is None for given in found):
        return by_rank([trace for given in found for trace in one(given, progress=progress)])
    from .loading.parallel import processes_of

    with processes_of(min(processes, len(found))) as pool:
        return by_rank([trace for traces in pool.map(one, found) for trace in traces])


def load_detail(
    trace: t.Trace,
    *,
    largest_bytes: int = LARGEST_BYTES,
    processes: int = 1,
    cache: Path | None = None,
    progress: Progress | None = None,
) -> t.Trace:
    """Read the detail pass of the rank that a bundle's trace is of; arguments as `load_run`, BundleError where there is none."""
    rank = trace.source.rank or 0
    found = [given for given in detail_inputs(trace.source.path) if (given.rank or 0) == rank]
    if not found:
        raise BundleError(f"the detail pass holds no rank {rank}")
    [detail] = _load(found[0], largest_bytes, processes, cache, progress)
    return detail


def by_rank(traces: Sequence[t.Trace]) -> tuple[t.Trace, ...]:
    """Ranks as the files say; where one does not, its place among all. BundleError where two are of one rank."""
    if len(traces) == 1:
        return tuple(traces)
    ranked: dict[int, t.Trace] = {}
    for place, trace in enumerate(traces):
        rank = place if trace.source.rank is None else trace.source.rank
        if rank in ranked:
            raise BundleError(_two_of_one_rank(ranked[rank], trace, rank, len(traces)))
        ranked[rank] = replace(trace, source=replace(trace.source, rank=rank))
    return tuple(ranked[rank] for rank in sorted(ranked))


def _two_of_one_rank(first: t.Trace, second: t.Trace, rank: int, count: int) -> str:
    """Two traces, and no more, may as well be two runs."""
    one, other = (trace.source.path for trace in (first, second))
    if count > 2 or one == other:
        names = f"{first.source.files[0].name} and {second.source.files[0].name}"
        return f"{names} are both of rank {rank}; name one file for each rank."
    compare = f"longpole diff {shlex.quote(one)} {shlex.quote(other)}"
    return f"{one} and {other} are both of rank {rank}; name one file for each rank, or compare two runs: {compare}"


def _load(
    given: Input, largest_bytes: int, processes: int, cache: Path | None, progress: Progress | None = None
) -> tuple[t.Trace, ...]:
    """The files of one rank, or of those that were merged into one; what the cache holds of them is not read again."""
    parse = partial(_parsed, given.file, largest_bytes, processes, progress)
    traces = _through_cache(cache, given.file, parse) if cache and given.file.path else parse()
    notes = warnings({code: count for code, (count, _) in given.notes.items()}, {c: d for c, (_, d) in given.notes.items()})
    averages, averages_by_shape = snapshots.beside(given.averages), snapshots.beside(given.averages_by_shape)
    return tuple(
        replace(
            trace,
            source=_placed(trace.source, given, alone=len(traces) == 1),
            manifest=given.manifest,
            averages=averages,
            averages_by_shape=averages_by_shape,
            warnings=(*trace.warnings, *notes),
        )
        for trace in traces
    )


def _placed(source: t.Source, given: Input, alone: bool) -> t.Source:
    """With what stands beside the file: its path and, where the file says neither, its rank and of how many it is one."""
    rank = given.rank if source.rank is None and alone else source.rank
    launched = given.manifest.world_size if given.manifest and given.manifest.launch else None
    world_size = launched if source.world_size is None else source.world_size
    return replace(source, path=given.given, rank=rank, world_size=world_size)


def _through_cache(folder: Path, file: File, parse: Callable[[], tuple[t.Trace, ...]]) -> tuple[t.Trace, ...]:
    from .loading import cached

    key = cached.key_of(file)
    traces = cached.read(folder, key)
    if traces is None:
        traces = parse()
        cached.write(folder, key, traces)
    return traces


def _parsed(file: File, largest_bytes: int, processes: int, progress: Progress | None) -> tuple[t.Trace, ...]:
    try:
        read = _read(file, largest_bytes, processes, progress)
    except NoEvents as other:
        return (snapshots.trace_of(file, other.text),)
    except BundleError:
        refuse_altered(file)  # that explains whatever else is wrong with it
        raise
    return tuple(_warned(read, trace) for trace in traces_of(read, _source(read)))


def _warned(read: Read, trace: t.Trace) -> t.Trace:
    """With the trouble of its file, and what it lacks where that was cut off."""
    if lacks_events(read):
        until_ns = host_whole_until(read, trace)
        trace = replace(trace, whole_until_ns=until_ns, whole_steps=whole_steps(trace, until_ns))
    return replace(trace, warnings=warnings(troubles(read), details(read), whole_sentence(trace)))


def _read(file: File, largest_bytes: int, processes: int, progress: Progress | None) -> Read:
    """The whole file, by two processes where that pays; once more where its writer turns out not to escape backslashes."""
    if processes > 1 and is_long(file):
        from .loading.parallel import read_by_two

        if (both := read_by_two(file, largest_bytes, progress)) is not None:
            return _whole(file, both.header, both.collected, Findings(), both.reading)
    try:
        return _read_once(file, largest_bytes, progress, raw_backslashes=False)
    except RawBackslashes:
        return _read_once(file, largest_bytes, progress, raw_backslashes=True)


def _read_once(file: File, largest_bytes: int, progress: Progress | None, raw_backslashes: bool) -> Read:
    reading, reader, collected = Reading(), Reader(file.name, raw_backslashes), Collected()
    text = blocks(file, reading, largest_bytes)
    with collector_paused():
        for chunk in reader.chunks(text):
            collected.keep_others = reader.header.schema is None
            new_names = collected.add(chunk)
            if not chunk.judged:
                reader.judge(new_names)
            if progress:
                progress(reading.read_bytes, file.size_bytes, collected.total)
        for _ in text:  # to the end, so that its SHA-256 is the file's
            pass
    return _whole(file, reader.header, collected, reader.found, reading)


def _whole(file: File, header: Header, collected: Collected, found: Findings, reading: Reading) -> Read:
    return Read(file.name, header, collected, found, reading, producer_of(header, collected))


def _source(read: Read) -> t.Source:
    header = read.header
    cuda, hip = _integer(header.cuda), _integer(header.hip)
    distributed = header.distributed if isinstance(header.distributed, dict) else {}
    devices = [d if isinstance(d, dict) else {} for d in header.devices] if isinstance(header.devices, list) else []
    return t.Source(
        path=read.name,
        files=(t.SourceFile(read.name, read.reading.sha256),),
        producer="unknown",
        rank=_integer(distributed.get("rank")),
        world_size=_integer(distributed.get("world_size")),
        devices=tuple(str(d.get("name", "unknown")) for d in devices),
        device_bytes=tuple(_integer(d.get("totalGlobalMem")) or 0 for d in devices),
        capabilities=tuple(_capability(d) for d in devices),
        runtime=None if cuda is None and hip is None else _runtime_version(cuda or hip or 0, rocm=cuda is None),
        with_shapes=bool(header.record_shapes),
        with_stacks=bool(header.with_stack),
        with_memory=bool(header.profile_memory),
    )


def _capability(device: dict[str, Any]) -> str:
    major, minor = _integer(device.get("computeMajor")), _integer(device.get("computeMinor"))
    return "" if major is None or minor is None else f"{major}.{minor}"


def _integer(value: Any) -> int | None:
    return value if isinstance(value, int) else None


def _runtime_version(number: int, rocm: bool) -> str:
    """CUDA writes 12040 for 12.4; HIP writes 60342133 for 6.3.42133."""
    return f"ROCm {number // 10**7}.{number // 10**5 % 100}" if rocm else f"CUDA {number // 1000}.{number % 1000 // 10}"
