"""`longpole pack --redact`: nothing is left that tells whose a run is, and its figures are the same."""

import gzip
import json
import re
import zipfile
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from make_trace import kernel, launch, op, step, write_bundle

from longpole.analyze.load import load
from longpole.analyze.redaction.bundles import redact
from longpole.analyze.redaction.texts import Texts, Words
from longpole.capture.bundle import HealthNote, RankFiles, described, read_manifest, write_manifest
from longpole.capture.errors import BundleError
from longpole.capture.packing import unpack
from longpole.reports.cli import cli

LARGEST = 10**10
NOBODY = Words()
ANN = Words(frozenset({"ann"}), frozenset({"gpu7.acme.com", "gpu7"}))


def written(text: str, known: Words = NOBODY) -> str:
    return Texts(known).written(text)


# Texts


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("/home/ann/proj/train.py(12): step", "train.py(12): step"),
        ("/home/ann b/my proj (2)/train.py(12): step", "train.py(12): step"),
        ("C:\\Users\\ann\\train.py(12): <module>", "train.py(12): <module>"),
        ("proj/train.py(12): step", "train.py(12): step"),
        ("/opt/env/lib/python3.11/site-packages/torch/nn/module.py(3): _call_impl", "torch/nn/module.py(3): _call_impl"),
        ("torch/autograd/profiler.py(1): __enter__", "torch/autograd/profiler.py(1): __enter__"),
        ("/home/ann/torch/x.py(1): f", "x.py(1): f"),
        ("load /data/acme/x.csv", "load x.csv"),
        ("load ../acme/x.csv", "load x.csv"),
        ("load acme/x.csv", "load x.csv"),
        ("~ann/x", "x"),
        ("~/acme/x", "x"),
        ("\\\\server\\share\\x.csv", "x.csv"),
        ("git@github.com:acme/x.git", "[address]"),
        ("get https://ann:secret@acme.com/x?token=1 now", "get [address] now"),
        ("mail ann@acme.com", "mail [address]"),
        ("to 10.1.2.3:80", "to [address]:80"),
        ("file:///home/ann/x.py", "[address]"),
    ],
)  # fmt: skip
def test_folders_and_addresses_go(text: str, left: str):
    assert written(text) == left


@pytest.mark.parametrize(
    "text",
    [
        "aten::mm", "ProfilerStep#12", "longpole.phase#forward", "forward/attention", "a / b", "x /= 2", "nn.Module: Linear_0",
        "<built-in method step of Optimizer object at 0x7f00>", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__",
        "void at::native::vectorized_elementwise_kernel<4, at::native::(anonymous namespace)::F, at::Array<char*, 2> >(int)",
        "jit(train)/jit(main)/transpose(jvp(MLP))/Dense_0/dot_general", "/device:GPU:0", "/host:CPU",
        "nccl:all_reduce",
        "autograd::engine::evaluate_function: AddmmBackward0", "threading.py(3): run", "Torch-Compiled Region: 0/0",
        "0/1", "1.5.2", "asyncio/events.py(3): run", "<frozen importlib._bootstrap>(3): load", "<eval_with_key>.1(5): forward",
    ],
)  # fmt: skip
def test_names_of_code_stay(text: str):
    assert written(text) == Texts(NOBODY).code(text) == text


def test_names_of_people_and_machines_go_from_what_people_write_and_stay_in_code():
    assert written("Ann's step on gpu7.acme.com, scan, ann_step", ANN) == "[user]'s step on [host], scan, [user]_step"
    assert Texts(Words(frozenset({"max"}))).code("aten::max") == "aten::max"
    assert written("ann.py(3): ann", ANN) == "[user].py(3): [user]"


def test_files_of_the_same_name_stay_apart():
    texts = Texts(NOBODY)
    names = ["/a/utils.py(3): f", "/b/utils.py(3): f", "/a/utils.py(4): g", "/b/utils.py(3): f"]
    assert [texts.code(name) for name in names] == [
        "utils.py(3): f", "2/utils.py(3): f", "utils.py(4): g", "2/utils.py(3): f",
    ]  # fmt: skip


# Whole bundles


def redacted(run: Path, folder: Path) -> Path:
    folder.mkdir()
    redact(run, folder, largest_bytes=LARGEST)
    return folder


def bundle_of(folder: Path, text: str | bytes, **manifest: Any) -> Path:
    """A bundle around the text of a trace."""
    write_bundle(folder, [step(1, 0, 100)])
    trace = folder / "rank0.trace.json.gz"
    trace.write_bytes(gzip.compress(text if isinstance(text, bytes) else text.encode(), mtime=0))
    write_manifest(folder, replace(read_manifest(folder), ranks=(RankFiles(0, described(trace)),), **manifest))
    return folder


def trace_of(folder: Path) -> dict[str, Any]:
    return json.loads(gzip.decompress((folder / "rank0.trace.json.gz").read_bytes()))


def summary(run: Path) -> dict[str, Any]:
    done = CliRunner().invoke(cli, ["summary", "--json", str(run)])
    assert done.exit_code == 0, done.output
    content = json.loads(done.stdout)
    del content["source"]
    return content


def without_folders(content: Any) -> Any:
    """The names of frames cut to their files', with sums for those that are called the same then."""
    return json.loads(re.sub(r'"(?:\d/|[^"]*/)?([^"/]*\(\d+\): )', r'"\1', json.dumps(content)))


def test_a_recording_of_torch_has_the_same_figures_and_torchs_own_table_still_agrees(tmp_path: Path):
    torch = pytest.importorskip("torch")
    from longpole.capture import record

    with record(tmp_path / "run", steps=3, wait=1, warmup=1, stacks=True, shapes=True, program={"data": "/x/acme"}) as rec:
        for _ in rec.steps(range(6)):
            with rec.phase("forward"), torch.profiler.record_function("load /data/acme/x.csv"):
                torch.ones(4, 4) @ torch.ones(4, 4)
    redacted(tmp_path / "run", tmp_path / "clean")
    before, after = summary(tmp_path / "run"), summary(tmp_path / "clean")
    assert len(before["measures"]["self_us"]) > 20
    renamed = json.loads(json.dumps(without_folders(before)).replace("load /data/acme/x.csv", "load x.csv"))
    assert without_folders(after) == renamed
    manifest = read_manifest(tmp_path / "clean")
    assert manifest.health == read_manifest(tmp_path / "run").health
    assert manifest.program["redacted"] is True
    assert "data" not in manifest.program
    assert all(b"acme" not in content for content in everything(tmp_path / "clean"))


@pytest.mark.parametrize(
    "name", ["h100_bert", "hta_alexnet", "hta_amd", "mi210_gpu_only", "vllm_decode_full", "torch_compile_triton"]
)
def test_a_real_trace_has_the_same_figures(tmp_path: Path, shared: Path, name: str):
    text = gzip.decompress((shared / "traces" / f"{name}.json.gz").read_bytes())
    run = bundle_of(tmp_path / "run", text)
    clean = redacted(run, tmp_path / "clean")
    assert without_folders(summary(clean)) == without_folders(summary(run))


def test_what_a_real_trace_tells_beside_its_events_is_gone(tmp_path: Path, shared: Path):
    text = gzip.decompress((shared / "traces" / "hta_negative_queue.json.gz").read_bytes())
    clean = redacted(bundle_of(tmp_path / "run", text), tmp_path / "clean")
    assert set(trace_of(clean)) <= {
        "schemaVersion", "baseTimeNanoseconds", "deviceProperties", "distributedInfo", "record_shapes", "with_stack",
        "profile_memory", "cuda_runtime_version", "hip_runtime_version", "traceEvents",
    }  # fmt: skip


def test_times_stay_to_the_last_digit(tmp_path: Path):
    event = (
        '{"ph":"X","cat":"cpu_op","name":"a","pid":1,"tid":1,"ts":1712345678901234.567,"dur":1.100,'
        '"args":{"External id":9007199254740993}}'
    )
    clean = redacted(bundle_of(tmp_path / "run", f'{{"schemaVersion":1,"traceEvents":[{event}]}}'), tmp_path / "clean")
    assert event.encode() in gzip.decompress((clean / "rank0.trace.json.gz").read_bytes())


@pytest.mark.parametrize(
    ("argument", "left"),
    [('"stream":7', '"stream":7'), ('"bytes":"256"', '"bytes":"256"'), ('"src":"0x7f00"', '"src":"0x7f00"'),
     ('"grid":[1,2,3],"block":[1]', '"grid":[1,2,3],"block":[1]'), ('"src":"10.1.2.3"', '"src":"[address]"'),
     ('"In split size":"[1, 2]"', '"In split size":"[1, 2]"'), ('"mine":7,"stream":7', '"stream":7'), ("", "")],
)  # fmt: skip
def test_arguments_that_are_numbers_stay_as_they_are(tmp_path: Path, argument: str, left: str):
    event = '{"ph":"X","cat":"kernel","name":"a","pid":1,"tid":1,"ts":1,"dur":1,"args":{%s}}'
    clean = redacted(bundle_of(tmp_path / "run", f'{{"schemaVersion":1,"traceEvents":[{event % argument}]}}'), tmp_path / "clean")
    assert (event % left).encode() in gzip.decompress((clean / "rank0.trace.json.gz").read_bytes())


def test_a_trace_that_was_cut_off_stays_so(tmp_path: Path):
    whole = json.dumps({"schemaVersion": 1, "traceEvents": [step(1, 0, 100), op("aten::mm", 10, 40)]})
    run = bundle_of(tmp_path / "run", whole[:-20])
    codes = [{note.code for note in load(folder).warnings} for folder in (run, redacted(run, tmp_path / "clean"))]
    assert "truncated_file" in codes[0] & codes[1]


@pytest.mark.parametrize(
    "name", ["01_unescaped_quotes", "03_windows_backslash", "04_inf_nan_values", "14_legacy_list_string_pid"]
)
def test_a_broken_trace_keeps_its_events(tmp_path: Path, shared: Path, name: str):
    run = bundle_of(tmp_path / "run", (shared / "field_cases" / f"{name}.json").read_bytes())
    before, after = load(run), load(redacted(run, tmp_path / "clean"))
    assert (len(after.host), len(after.device)) == (len(before.host), len(before.device))
    assert after.host.start_ns.tolist() == before.host.start_ns.tolist()


def test_an_altered_trace_is_refused(tmp_path: Path):
    run = write_bundle(tmp_path / "run", [step(1, 0, 100)])
    (run / "rank0.trace.json.gz").write_bytes(gzip.compress(b'{"traceEvents":[{"ph":"X","name":"a","ts":1,"dur":1}]}'))
    with pytest.raises(BundleError, match="is not the file that was captured"):
        redacted(run, tmp_path / "clean")


def test_a_command_keeps_its_script_and_settings_that_are_plain(tmp_path: Path):
    program = {
        "command": "/x/train.py --data acme", "env.OMP_NUM_THREADS": "4", "env.CUDA_VISIBLE_DEVICES": "GPU-acme", "seed": 7,
        "dataset": "acme", "git_commit": "abc",
    }  # fmt: skip
    run = write_bundle(tmp_path / "run", [step(1, 0, 100)], program=program)
    assert read_manifest(redacted(run, tmp_path / "clean")).program == {
        "command": "train.py", "env.OMP_NUM_THREADS": "4", "env.CUDA_VISIBLE_DEVICES": "***", "seed": 7, "git_commit": "abc",
        "redacted": True,
    }  # fmt: skip


def test_a_module_is_named_like_a_script_and_how_its_loop_was_found_stays(tmp_path: Path):
    found = {"step_ends_on": "optimizer SGD", "optimizers": "SGD (32 steps so far)", "models": "Net"}
    program = {"command": "-m package.train --data acme", **found}
    run = write_bundle(tmp_path / "run", [step(1, 0, 100)], program=program)
    assert read_manifest(redacted(run, tmp_path / "clean")).program == {
        "command": "-m package.train", **found, "redacted": True,
    }  # fmt: skip


# Secrets


def everything(folder: Path) -> list[bytes]:
    """The files of a bundle as text."""
    files = [path.read_bytes() for path in folder.iterdir()]
    return [gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content for content in files]


Place = Callable[[dict[str, Any], dict[str, Any], str], object]


def _event(trace: dict[str, Any], **fields: Any) -> None:
    trace["traceEvents"].append({"ph": "X", "cat": "cpu_op", "name": "a", "pid": 1, "tid": 1, "ts": 5, "dur": 1, **fields})


def _argument(key: str, value: Callable[[str], Any]) -> Place:
    return lambda trace, manifest, secret: _event(trace, args={key.replace("SECRET", secret): value(secret)})


def _name(shape: str, category: str) -> Place:
    return lambda trace, manifest, secret: _event(trace, cat=category, name=shape.replace("SECRET", secret))


def _beside(key: str, value: Callable[[str], Any]) -> Place:
    return lambda trace, manifest, secret: trace.update({key.replace("SECRET", secret): value(secret)})


def _label(name: str, shape: str) -> Place:
    return lambda trace, manifest, secret: trace["traceEvents"].append(
        {"ph": "M", "name": name, "pid": 1, "tid": 1, "ts": 0, "args": {"name": shape.replace("SECRET", secret)}}
    )


def _fact(field: str, key: str, shape: str) -> Place:
    return lambda trace, manifest, secret: manifest[field].update({key: shape.replace("SECRET", secret)})


SHAPES = (
    "/home/SECRET/a.py(3): f", "/SECRET/x y/a.py(3): f", "C:\\SECRET\\a.py(3): f", "SECRET/a.py(3): f", "../SECRET/a.py(3): f",
    "load /data/SECRET/x.csv", "load SECRET/x.csv", "https://SECRET.com/", "http://a/SECRET?x", "me@SECRET", "SECRET@acme:x/y",
)  # fmt: skip
CATEGORIES = ("cpu_op", "user_annotation", "python_function", "kernel", "of another tool")
PLACES: list[Place] = [
    *(_name(shape, category) for shape in SHAPES for category in CATEGORIES),
    *(_argument("Call stack", lambda secret, shape=shape: f"b.py(1): g;{shape.replace('SECRET', secret)};") for shape in SHAPES),
    *(_argument(key, lambda secret: f"/tmp/{secret}/c.py") for key in ("kernel_file", "Trace name", "kernel", "src")),
    *(_argument("Concrete Inputs", value) for value in (lambda s: [s], lambda s: ["1", f"[{s}]"], lambda s: s)),
    *(_argument("SECRET", value) for value in (lambda _: 1, lambda _: "x", lambda _: {}, lambda _: [1, 2])),
    *(_argument("mine", value) for value in (lambda s: s, lambda s: [s], lambda s: {s: 1}, lambda s: {"x": {"y": s}})),
    *(_beside(key, lambda secret: secret) for key in ("host_name", "username", "traceName", "trace_id", "mine", "SECRET")),
    *(_beside(key, lambda secret: {secret: [secret]}) for key in ("metadata", "distributedInfo", "otherData", "INFO")),
    _beside("distributedInfo", lambda secret: {"rank": 0, "hosts": [secret], "pg_config": [{"pg_size": 1, "host": secret}]}),
    _beside("deviceProperties", lambda secret: [{"id": 0, "name": "H100", "uuid": secret}]),
    *(_label(name, shape) for name in ("process_name", "thread_name", "mine") for shape in ("SECRET", "python a.py --x SECRET")),
    _label("thread_name", "thread 7 (SECRET)"),
    lambda trace, manifest, secret: (_event(trace, cat="mine", name=f"step of {secret}"), trace.update(username=secret)),
    lambda trace, manifest, secret: (_event(trace, cat="user_annotation", name=f"on {secret}"), trace.update(host_name=secret)),
    lambda trace, manifest, secret: (_event(trace, name=f"/home/{secret}/a"), manifest.update(title=f"{secret} 3")),
    lambda trace, manifest, secret: _event(trace, **{secret: "x", "mine": secret}),
    lambda trace, manifest, secret: _event(trace, ts=f"5{secret}", cname=secret),
    _fact("program", "command", "train.py --data SECRET"),
    _fact("program", "command", "/SECRET/train.py 'open"),
    _fact("program", "remote", "git@github.com:SECRET/x.git"),
    _fact("program", "mine", "SECRET"),
    _fact("program", "env.CUDA_VISIBLE_DEVICES", "GPU-SECRET"),
    _fact("options", "mine", "/SECRET/x"),
    _fact("machine", "mine", "ssh://SECRET"),
    lambda trace, manifest, secret: manifest.update(title=f"/runs/{secret}/base"),
    lambda trace, manifest, secret: manifest.update(health=(HealthNote("x", f"No file '/tmp/{secret}/x' on {secret}@gpu."),)),
    lambda trace, manifest, secret: manifest["rows"].append({"key": f"/x/{secret}/a.py(3): f", "count": 1}),
    lambda trace, manifest, secret: manifest["rows"].append({"key": "a", "stack": [f"/x/{secret}/a.py(3): f"]}),
]  # fmt: skip

SECRETS = st.text("abcdefghij", min_size=5, max_size=12).map(lambda text: f"zq{text}")


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(secret=SECRETS, places=st.lists(st.sampled_from(PLACES), min_size=1, max_size=8), escaped=st.booleans())
def test_no_secret_survives_wherever_it_stands(
    tmp_path_factory: pytest.TempPathFactory, secret: str, places: list[Place], escaped: bool
):
    assert_gone(tmp_path_factory.mktemp("bundle"), secret, places, escaped)


@pytest.mark.parametrize("place", PLACES)
def test_no_secret_survives_in_any_place_alone(tmp_path: Path, place: Place):
    assert_gone(tmp_path, "zqabcdef", [place], escaped=True)


def assert_gone(folder: Path, secret: str, places: list[Place], escaped: bool) -> None:
    trace: dict[str, Any] = {"schemaVersion": 1, "traceEvents": [step(1, 0, 100), op("aten::mm", 10, 40)]}
    manifest: dict[str, Any] = {"program": {}, "options": {}, "machine": {}, "rows": []}
    for place in places:
        place(trace, manifest, secret)
    rows, title = manifest.pop("rows"), manifest.pop("title", "x")
    run = write_bundle(folder / "run", [step(1, 0, 100)], snapshot=rows, **manifest)
    text = json.dumps(trace)
    if not escaped:
        text = text.replace("\\\\", "\\")  # as torch on Windows has written it
    path = run / "rank0.trace.json.gz"
    path.write_bytes(gzip.compress(text.encode(), mtime=0))
    whole = read_manifest(run)
    write_manifest(run, replace(whole, title=title, ranks=(replace(whole.ranks[0], trace=described(path)),)))
    assert any(secret.encode() in content for content in everything(run))
    clean = redacted(run, folder / "clean")
    assert [content for content in everything(clean) if secret.encode() in content.lower()] == []
    assert len(load(clean).host) >= 2


# The command


def longpole(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli, [str(argument) for argument in arguments])


def test_the_zip_is_a_whole_bundle_with_sums_of_its_own(tmp_path: Path):
    events = [step(1, 0, 100), op("/home/ann/x.py(3): f", 10, 40), launch(1, 20, 25)], [kernel("gemm", 30, 60, correlation=1)]
    run = write_bundle(tmp_path / "run", *events, snapshot=[{"key": "/home/ann/x.py(3): f", "count": 1}], program={"mine": "x"})
    done = longpole("pack", "--redact", run)
    assert (done.exit_code, done.stdout) == (0, f"Wrote {tmp_path / 'run.redacted.zip'}\n")
    assert done.stderr == "longpole: left out 'mine': not known to be free of names.\n"
    unpack(tmp_path / "run.redacted.zip", tmp_path / "clean", largest_bytes=LARGEST)
    assert asdict(read_manifest(tmp_path / "clean").ranks[0]) != asdict(read_manifest(run).ranks[0])
    assert json.loads((tmp_path / "clean" / "rank0.key_averages.json").read_bytes())["rows"][0]["key"] == "x.py(3): f"
    assert "x.py(3): f" in load(tmp_path / "clean").names


def test_a_zipped_bundle_is_redacted_too_and_twice_is_the_same(tmp_path: Path):
    write_bundle(tmp_path / "run", [step(1, 0, 100), op("/home/ann/x.py(3): f", 10, 40)])
    assert longpole("pack", tmp_path / "run").exit_code == 0
    for name in ("one.zip", "two.zip"):
        assert longpole("pack", "--redact", tmp_path / "run.zip", "-o", tmp_path / name).exit_code == 0
    assert (tmp_path / "one.zip").read_bytes() == (tmp_path / "two.zip").read_bytes()
    with zipfile.ZipFile(tmp_path / "one.zip") as archive:
        assert archive.namelist() == ["manifest.json", "rank0.trace.json.gz"]


def test_what_is_no_bundle_is_not_redacted(tmp_path: Path):
    (tmp_path / "trace.json").write_text('{"traceEvents":[{"ph":"X","name":"a","ts":1,"dur":1}]}', encoding="utf-8")
    done = longpole("pack", "--redact", tmp_path / "trace.json", "-o", tmp_path / "x.zip")
    assert "is not a bundle" in str(done.exception)
    assert not (tmp_path / "x.zip").exists()
