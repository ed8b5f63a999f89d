"""What does loading cost? CPU time, wall time and peak memory, side by side with what they are held against, as Markdown.

python run.py bench load [--sizes 0.4,1.6] [--runs 5] [--quick] [--keep FOLDER]

Every measurement is a process of its own; the candidates of a group take turns. Of the times the least counts, because other
programs on the machine only ever add to them; of the memory the median. Traces are generated, into --keep FOLDER to be used
again, else into a folder on disk that is gone afterwards (with the default sizes it holds 4 GB).
The exit status is 1 where a limit is exceeded or a measurement failed. For Linux and macOS.
"""

import argparse
import gc
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

MB, GB = 10**6, 10**9
LONGEST_WORDS = 100
BARE_LIMIT, ORJSON_FACTOR, BAD_EVENT_LIMIT, TWO_PROCESSES_FACTOR = 1.25, 3, 1.10, 1.15
FLAT_LIMIT = 1.10  # "flat": what names and numbers of 20,000 steps may take
LOAD_BYTES, LOAD_SHARE = 60 * MB, 0.3
SUMMARY_BYTES, SUMMARY_SHARE = 200 * MB, 0.5
SMALL_SUMMARY_S, HELP_S = 0.6, 0.15
SMALL_BYTES = 900_000  # of JSON: 70 kB compressed
ORJSON_SHARE = 8  # times the JSON's size, what orjson's objects need at the most
DISK = Path("/var/tmp")  # on disk also where /tmp is memory
MEMORY, CPU_TIMES = Path("/proc/meminfo"), Path("/proc/stat")  # Linux has them


# --- What is measured: in a process of its own each --------------------------------------------------------------------------


def load_alone() -> Callable[[Path], object]:
    from longpole.analyze.load import load

    return load


def load_in_two_processes() -> Callable[[Path], object]:
    from longpole.analyze.load import load

    return partial(load, processes=2)


def bare_msgspec() -> Callable[[Path], object]:
    """The whole file at once into structs that hold exactly what `load` keeps."""
    import msgspec

    file = typed_file()
    gc.disable()
    return lambda path: msgspec.json.decode(path.read_bytes(), type=file)


def typed_file() -> type:
    import msgspec

    from longpole.analyze.loading import arguments, events

    kept = {f.encode_name: f for kind in arguments.KINDS for f in msgspec.structs.fields(kind)}
    fields = [(f"arg{i}", f.type, msgspec.field(name=key, default=f.default)) for i, (key, f) in enumerate(kept.items())]
    args = msgspec.defstruct("Args", fields, gc=False)
    event = msgspec.defstruct("Event", [("args", args | None, None)], bases=(events.Event,), gc=False)
    events_field = ("events", list[event], msgspec.field(name="traceEvents"))
    return msgspec.defstruct("File", [events_field], bases=(events.Header,), gc=False, kw_only=True)


def orjson_as_called() -> Callable[[Path], object]:
    import orjson

    return lambda path: orjson.loads(path.read_bytes())


CANDIDATES = {function.__name__: function for function in (load_alone, load_in_two_processes, bare_msgspec, orjson_as_called)}


@dataclass(frozen=True)
class Cost:
    cpu_s: float
    wall_s: float
    peak_bytes: int


def measured(candidate: str, path: Path) -> Cost:
    """Of this process, after its imports, and of those that it started and waited for."""
    call = CANDIDATES[candidate]()
    wall, cpu = time.perf_counter(), cpu_s()
    result = call(path)
    cost = Cost(cpu_s() - cpu, time.perf_counter() - wall, peak_bytes())
    del result  # only now: freeing it is no part of loading
    return cost


def compiled_once() -> dict[str, str]:
    """The environment in which modules are compiled once and not in each process, as where longpole is installed."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def cpu_s() -> float:
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def peak_bytes() -> int:
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text(encoding="utf-8").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return resident_bytes(resource.getrusage(resource.RUSAGE_SELF))


def resident_bytes(usage: resource.struct_rusage) -> int:
    return usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)


# --- The files ----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TraceFile:
    """A generated trace; exactly one of `size_bytes` (of JSON) and `steps` is given."""

    name: str
    size_bytes: int | None = None
    steps: int | None = None
    layers: int | None = None
    as_large_as_steps: int | None = None  # of one layer each: `layers` follows from it
    gzip: bool = False
    bad_event: bool = False


def make(path: Path, file: TraceFile) -> None:
    """The JSON of a compressed file is as large as that of the plain one of the same size."""
    from big_trace import LAYERS, BigTrace, steps_in, write_big_trace

    layers = file.layers or LAYERS
    if file.as_large_as_steps and file.steps:
        per_layer = (BigTrace(file.steps, 2 * LAYERS).step_bytes - BigTrace(file.steps, LAYERS).step_bytes) / LAYERS
        wanted = BigTrace(file.as_large_as_steps, 1).step_bytes * file.as_large_as_steps / file.steps
        layers = LAYERS + round((wanted - BigTrace(file.steps, LAYERS).step_bytes) / per_layer)
    steps = file.steps or steps_in(file.size_bytes or 0, layers)
    unfinished = path.with_name(path.name + ".part")
    write_big_trace(unfinished, steps=steps, layers=layers, gzip=file.gzip, bad_event_at=steps // 2 if file.bad_event else None)
    unfinished.rename(path)


def provided(folder: Path, file: TraceFile) -> Path:
    """The file's path; made where it is missing, in another process because a child inherits its parent's peak."""
    path = folder / file.name
    if not path.exists():
        say(f"writing {path}")
        subprocess.run([sys.executable, __file__, "--make", str(path), json.dumps(asdict(file))], check=True)
    return path


# --- Cases and the limits they are held to ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    what: str
    file: TraceFile | None = None
    candidate: str = ""  # one of CANDIDATES, or else
    command: tuple[str, ...] = ()  # arguments of `longpole`, before the file
    imported: str = ""  # a package that a process imports, and nothing else
    needs_bytes: int = 0
    needs_cores: int = 1


@dataclass(frozen=True)
class Check:
    """`figure` of a case, or its ratio to that of another, and what it must not exceed or fall short of."""

    what: str
    case: Case
    figure: str  # a field of Cost
    against: Case | None = None
    at_most: float | None = None
    at_least: float | None = None

    @property
    def cases(self) -> list[Case]:
        return [self.case] if self.against is None else [self.case, self.against]


@dataclass(frozen=True)
class Group:
    """Cases that are measured in turns."""

    cases: list[Case]
    checks: list[Check]


def groups(sizes: list[float], quick: bool) -> Iterator[Group]:
    few, many = (5, 2_000) if quick else (50, 20_000)
    for size in sizes:
        yield loading(size)
    yield broken(sizes[0])
    yield two_processes(sizes[-1])
    yield flatness(few, many)
    yield command_line(sizes[0])


def loading(size: float) -> Group:
    plain, compressed = trace_file(size), trace_file(size, gzip=True)
    from_gzip = Case(f"load, {size:g} GB, gzipped", compressed, "load_alone")
    from_plain = Case(f"load, {size:g} GB, plain", plain, "load_alone")
    bare = Case(f"bare typed msgspec decode, {size:g} GB, plain, gc off", plain, "bare_msgspec")
    orjson = Case(
        f"orjson.loads, {size:g} GB, plain, gc on", plain, "orjson_as_called", needs_bytes=int(size * GB * ORJSON_SHARE)
    )
    most_bytes = LOAD_BYTES + LOAD_SHARE * size * GB
    return Group(
        [from_gzip, from_plain, bare, orjson],
        [
            Check(f"CPU of {from_gzip.what} : bare msgspec", from_gzip, "cpu_s", bare, at_most=BARE_LIMIT),
            Check(f"CPU of orjson.loads : load, {size:g} GB, gzipped", orjson, "cpu_s", from_gzip, at_least=ORJSON_FACTOR),
            *(Check(f"peak memory of {c.what}", c, "peak_bytes", at_most=most_bytes) for c in (from_gzip, from_plain)),
        ],
    )


def broken(size: float) -> Group:
    healthy = Case(f"load, {size:g} GB, plain, healthy", trace_file(size), "load_alone")
    bad_file = TraceFile(f"bad_{size * 1000:g}.json", round(size * GB), bad_event=True)
    bad = Case(f"load, {size:g} GB, plain, one bad event", bad_file, "load_alone")
    return Group([healthy, bad], [Check("CPU with one bad event : healthy", bad, "cpu_s", healthy, at_most=BAD_EVENT_LIMIT)])


def two_processes(size: float) -> Group:
    file = trace_file(size, gzip=True)
    one = Case(f"load, {size:g} GB, gzipped, one process", file, "load_alone", needs_cores=2)
    two = Case(f"load, {size:g} GB, gzipped, two processes", file, "load_in_two_processes", needs_cores=2)
    return Group([one, two], [Check("wall time of one process : two", one, "wall_s", two, at_least=TWO_PROCESSES_FACTOR)])


def flatness(few: int, many: int) -> Group:
    large_steps = TraceFile(f"steps_{few}_large.json", steps=few, as_large_as_steps=many)
    small_steps = TraceFile(f"steps_{many}_small.json", steps=many, layers=1)
    in_few = Case(f"load, {few:,} large steps", large_steps, "load_alone")
    in_many = Case(f"load, {many:,} small steps", small_steps, "load_alone")
    check = Check(f"peak memory with {many:,} steps : {few:,}", in_many, "peak_bytes", in_few, at_most=FLAT_LIMIT)
    return Group([in_few, in_many], [check])


def command_line(size: float) -> Group:
    large = Case(f"longpole summary, {size:g} GB, gzipped", trace_file(size, gzip=True), command=("summary",))
    small = Case("longpole summary, small", TraceFile("small.json.gz", SMALL_BYTES, layers=6, gzip=True), command=("summary",))
    usage = Case("longpole --help", command=("--help",))
    pandas = Case("import pandas, and nothing else", imported="pandas")
    most_bytes = SUMMARY_BYTES + SUMMARY_SHARE * size * GB
    return Group(
        [large, small, usage, pandas],
        [
            Check(f"peak memory of {large.what}", large, "peak_bytes", at_most=most_bytes),
            Check(f"CPU of {small.what}", small, "cpu_s", at_most=SMALL_SUMMARY_S),
            Check(f"CPU of {usage.what}", usage, "cpu_s", at_most=HELP_S),
        ],
    )


def trace_file(size: float, gzip: bool = False) -> TraceFile:
    return TraceFile(f"py_{size * 1000:g}.json{'.gz' if gzip else ''}", round(size * GB), gzip=gzip)


# --- Measuring ----------------------------------------------------------------------------------------------------------------


@dataclass
class Costs:
    """Of a case, run by run; or why there are none."""

    runs: list[Cost] = field(default_factory=list)
    skipped: str = ""
    failed: str = ""

    def figure(self, name: str) -> float:
        values = [getattr(cost, name) for cost in self.runs]
        return statistics.median(values) if name == "peak_bytes" else min(values)


def measured_in_turns(group: Group, runs: int, folder: Path) -> dict[Case, Costs]:
    paths = {case: provided(folder, case.file) if case.file else None for case in group.cases}
    costs = {case: Costs(skipped=lacking(case)) for case in group.cases}
    for run in range(runs):
        for case in group.cases:
            if costs[case].skipped or costs[case].failed:
                continue
            say(f"{run + 1}/{runs} {case.what}")
            try:
                costs[case].runs.append(cost_of(case, paths[case]))
            except ChildProcessError as problem:
                costs[case].failed = f"failed: {problem}"
    return costs


def cost_of(case: Case, path: Path | None) -> Cost:
    """A candidate measures itself, without its start; a command is measured from outside, with it."""
    if case.candidate:
        return Cost(**json.loads(finished([__file__, "--measure", case.candidate, str(path)])[0]))
    if case.imported:
        return finished(["-c", f"import {case.imported}"])[1]
    arguments = ["-m", "longpole.reports.cli", *case.command, *([str(path)] if path else [])]
    return finished(arguments)[1]


def finished(arguments: list[str]) -> tuple[str, Cost]:
    """What a Python process printed and cost; ChildProcessError, with its last words, if it failed."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as errors:
        start = time.perf_counter()
        process = subprocess.Popen([sys.executable, *arguments], stdout=out, stderr=errors, env=compiled_once())
        _, status, usage = os.wait4(process.pid, 0)
        wall_s = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)  # or Popen would wait for it again
        out.seek(0)
        errors.seek(0)
        if process.returncode:
            words = errors.read().decode(errors="replace").strip().splitlines() or ["it said nothing"]
            raise ChildProcessError(words[-1][:LONGEST_WORDS].replace("|", "¦"))  # it becomes a cell of a table
        return out.read().decode(), Cost(usage.ru_utime + usage.ru_stime, wall_s, resident_bytes(usage))


def lacking(case: Case) -> str:
    """Why the case cannot be measured on this machine now; empty where it can."""
    if case.needs_bytes and case.needs_bytes > available_bytes():
        return f"skipped: {case.needs_bytes / GB:.0f} GB of memory are not free"
    if case.needs_cores > 1 and free_cores() < case.needs_cores - 0.3:  # a machine in use is never wholly idle
        return f"skipped: {case.needs_cores} cores are not free"
    return ""


def available_bytes() -> int:
    """Memory that can be had; where the system does not say, all that is built in."""
    return memory("MemAvailable") or os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def memory(row: str) -> int | None:
    if not MEMORY.exists():
        return None
    rows = dict(line.split(":") for line in MEMORY.read_text(encoding="utf-8").splitlines())
    return int(rows[row].split()[0]) * 1024


def free_cores() -> float:
    """Of those that this process may use, as many as idled for a second; where the system does not say, all."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if not CPU_TIMES.exists():
        return usable
    before = idle_s()
    time.sleep(1)
    return min(usable, idle_s() - before)


def idle_s() -> float:
    """Seconds that all cores together idled since the start of the machine."""
    ticks = CPU_TIMES.read_text(encoding="utf-8").split("\n", 1)[0].split()
    return int(ticks[4]) / os.sysconf("SC_CLK_TCK")


# --- The tables ---------------------------------------------------------------------------------------------------------------

COSTS_HEAD = ("what", "file, MB", "CPU, s", "wall, s", "peak memory, MB")
LIMITS_HEAD = ("what", "measured", "ratio", "limit", "")


def cost_row(case: Case, costs: Costs, folder: Path) -> tuple[str, ...]:
    file_mb = f"{(folder / case.file.name).stat().st_size / MB:.3g}" if case.file else ""
    if not costs.runs:
        return case.what, file_mb, costs.skipped or costs.failed, "", ""
    return case.what, file_mb, *(f"{costs.figure(f):.2f}" for f in ("cpu_s", "wall_s")), f"{costs.figure('peak_bytes') / MB:.0f}"


def limit_row(check: Check, costs: dict[Case, Costs]) -> tuple[str, ...]:
    of_cases = [costs[case] for case in check.cases]
    limit = limit_text(check)
    if not all(c.runs for c in of_cases):
        reasons = "; ".join({reason: None for c in of_cases if (reason := c.failed or c.skipped)})
        return check.what, reasons, "", limit, "FAILED" if any(c.failed for c in of_cases) else "skipped"
    figures = [c.figure(check.figure) for c in of_cases]
    ratio = f"{figures[0] / figures[1]:.2f}×" if check.against else ""
    measured = " : ".join(figure_text(check.figure, figure) for figure in figures)
    return check.what, measured, ratio, limit, "ok" if holds(check, figures) else "OVER"


def holds(check: Check, figures: list[float]) -> bool:
    value = figures[0] / figures[1] if check.against else figures[0]
    return (check.at_most is None or value <= check.at_most) and (check.at_least is None or value >= check.at_least)


def limit_text(check: Check) -> str:
    sign, limit = ("≤", check.at_most) if check.at_most is not None else ("≥", check.at_least or 0)
    return f"{sign} {limit:.2f}×" if check.against else f"{sign} {figure_text(check.figure, limit)}"


def figure_text(name: str, value: float) -> str:
    return f"{value / MB:.0f} MB" if name == "peak_bytes" else f"{value:.2f} s"


def table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    return "\n".join("| " + " | ".join(row) + " |" for row in [head, ("---",) * len(head), *rows])


def machine(runs: int) -> str:
    memory_bytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    packages = ", ".join(f"{name} {version(name)}" for name in ("longpole", "msgspec", "isal", "numpy", "orjson"))
    return (
        f"{processor()}, {os.cpu_count()} cores, {memory_bytes / GB:.0f} GB of memory; {platform.platform()}; "
        f"{platform.python_implementation()} {platform.python_version()}, {packages}. Least times and median memory of {runs}, "
        "each run a new process."
    )


def processor() -> str:
    path = Path("/proc/cpuinfo")
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def report(sizes: list[float], runs: int, quick: bool, folder: Path) -> bool:
    """Measure and print everything; whether all limits hold."""
    cost_rows: list[tuple[str, ...]] = []
    limit_rows: list[tuple[str, ...]] = []
    for group in groups(sizes, quick):
        costs = measured_in_turns(group, runs, folder)
        cost_rows += [cost_row(case, costs[case], folder) for case in group.cases]
        limit_rows += [limit_row(check, costs) for check in group.checks]
    print(f"{machine(runs)}\n\n{table(LIMITS_HEAD, limit_rows)}\n\n{table(COSTS_HEAD, cost_rows)}")
    return all(row[-1] in ("ok", "skipped") for row in limit_rows)


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def of_a_trace(
    name: str, question: str, gigabytes: float, measured: Callable[[Path], Any], report: Callable[[Path, int], bool]
) -> int:
    """A benchmark of one trace, given or generated: `measured` in a process of its own, `report` says if limits hold."""
    parser = argparse.ArgumentParser(prog=f"python run.py bench {name}", description=question.splitlines()[0])
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE", help="traces; without one a trace is generated")
    parser.add_argument("--size", type=float, default=gigabytes, help=f"GB of JSON of the generated trace ({gigabytes:g})")
    parser.add_argument("--runs", type=int, default=3, help="runs of which the least time counts (3)")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="where the generated trace is, or is put and stays")
    parser.add_argument("--measure", type=Path, metavar="FILE", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measured(options.measure)))
        return 0
    print(machine(options.runs), end="\n\n")
    if options.files:
        hold = [report(path, options.runs) for path in options.files]
        return not all(hold)
    file = TraceFile(f"{name}_{options.size:g}.json.gz", round(options.size * GB), gzip=True)
    if options.keep:
        options.keep.mkdir(parents=True, exist_ok=True)
        return not report(provided(options.keep, file), options.runs)
    with tempfile.TemporaryDirectory(prefix=f"bench_{name}_", dir=DISK if DISK.is_dir() else None) as folder:
        return not report(provided(Path(folder), file), options.runs)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python run.py bench load", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sizes", default=None, help="sizes of the traces in GB, the smallest first (0.4,1.6)")
    parser.add_argument("--runs", type=int, default=5, help="runs of each candidate (5)")
    parser.add_argument("--quick", action="store_true", help="small sizes: to try the benchmark, not the limits")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="where the traces are, or are put and stay")
    parser.add_argument("--measure", nargs=2, metavar=("CANDIDATE", "FILE"), help=argparse.SUPPRESS)
    parser.add_argument("--make", nargs=2, metavar=("FILE", "FIELDS"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(asdict(measured(options.measure[0], Path(options.measure[1])))))
        return 0
    if options.make:
        make(Path(options.make[0]), TraceFile(**json.loads(options.make[1])))
        return 0
    sizes = [float(size) for size in (options.sizes or ("0.02,0.08" if options.quick else "0.4,1.6")).split(",")]
    if options.keep:
        options.keep.mkdir(parents=True, exist_ok=True)
        return not report(sizes, options.runs, options.quick, options.keep)
    with tempfile.TemporaryDirectory(prefix="bench_load_", dir=DISK if DISK.is_dir() else None) as folder:
        return not report(sizes, options.runs, options.quick, Path(folder))


if __name__ == "__main__":
    sys.exit(main())
