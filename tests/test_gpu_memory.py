"""torch's allocator snapshot becomes plain JSON: sizes, counts and the peak's make-up, bounded, without paths."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longpole.capture import gpu_memory as module
from longpole.capture.bundle import read_manifest, verified
from longpole.capture.gpu_memory import gpu_memory
from longpole.capture.memory_history import MemoryHistory

torch = pytest.importorskip("torch")

LIBRARY = "/opt/python/site-packages/torch"
IN_TORCH = {"filename": f"{LIBRARY}/nn/modules/linear.py", "line": 125, "name": "forward"}
IN_CPP = {"filename": "/pytorch/c10/cuda/CUDACachingAllocator.cpp", "line": 9, "name": "malloc"}


def frames(line: int) -> list[dict[str, Any]]:
    return [IN_CPP, IN_TORCH, {"filename": "/home/ann/project/train.py", "line": line, "name": "step"}]


def block(address: int, size: int, state: str = "active_allocated", line: int = 1) -> dict[str, Any]:
    """Sizes are rounded up to 512; asked for was 12 less."""
    return {"address": address, "size": size, "requested_size": size - 12, "state": state, "frames": frames(line)}


def segment(*blocks: dict[str, Any], stream: int = 0, device: int = 0) -> dict[str, Any]:
    allocated = sum(one["size"] for one in blocks if one["state"] == "active_allocated")
    return {
        "device": device, "address": blocks[0]["address"], "total_size": sum(one["size"] for one in blocks), "stream": stream,
        "segment_type": "small", "allocated_size": allocated, "active_size": allocated, "blocks": list(blocks),
    }  # fmt: skip


def event(action: str, addr: int, size: int, line: int = 1) -> dict[str, Any]:
    return {"action": action, "addr": addr, "size": size, "stream": 0, "frames": frames(line), "time_us": 1000 + addr}


def device(segments: list[dict[str, Any]], events: list[dict[str, Any]], most: int | None = 100) -> dict[str, Any]:
    (found,) = gpu_memory({"segments": segments, "device_traces": [events]}, LIBRARY, most)["devices"]
    return found


def test_segments_and_blocks_keep_their_sizes_the_largest_first():
    small = segment(block(0, 512), block(512, 1536, "inactive"))
    large = segment(block(9000, 1024, "active_awaiting_free"), block(10024, 4096), stream=94_000_000)
    found = device([small, large], [])
    assert (found["reserved_bytes"], found["allocated_bytes"], found["requested_bytes"]) == (7168, 4608, 4584)
    assert (found["free_bytes"], found["largest_free_bytes"], found["segments_count"]) == (1536, 1536, 2)
    assert [(one["size_bytes"], one["stream"], one["blocks_count"]) for one in found["segments"]] == [(5120, 1, 2), (2048, 0, 2)]
    assert found["segments"][0]["blocks"] == [
        {"size_bytes": 4096, "requested_bytes": 4084, "state": "active_allocated"},
        {"size_bytes": 1024, "requested_bytes": 1012, "state": "active_awaiting_free"},
    ]


def test_the_peak_is_made_of_what_was_in_use_at_that_moment():
    kept = segment(block(0, 512, line=10))  # 500 bytes, from before the first event
    events = [
        event("alloc", 1, 100, line=20),
        event("alloc", 2, 300, line=30),  # the peak: 500 + 100 + 300
        event("free_requested", 1, 100, line=20),
        event("free_completed", 1, 100, line=20),
        event("segment_alloc", 3, 2048),
        event("alloc", 1, 50, line=40),
        event("free_requested", 2, 300, line=30),
        event("free_requested", 1, 50, line=40),
    ]
    peak = device([kept], events)["peak"]
    assert (peak["requested_bytes"], peak["blocks_count"], peak["events_before_count"], peak["time_us"]) == (900, 3, 2, 1002)
    assert [(one["site"], one["requested_bytes"], one["blocks_count"]) for one in peak["sites"]] == [
        ("train.py:10 step", 500, 1), ("train.py:30 step", 300, 1), ("train.py:20 step", 100, 1),
    ]  # fmt: skip


def test_blocks_of_one_line_are_added_up():
    events = [event("alloc", address, 100, line=7) for address in (1, 2, 3)]
    live = segment(*(block(address, 112, line=7) for address in (1, 2, 3)))
    assert device([live], events)["peak"]["sites"] == [{"site": "train.py:7 step", "requested_bytes": 300, "blocks_count": 3}]


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(1, 9)), max_size=30))
def test_the_peak_is_that_of_a_naive_replay(turns: list[tuple[int, int]]):
    live: dict[int, int] = {}
    events, most = [], 0
    for addr, size in turns:  # an address that is in use is freed, else allocated
        if addr in live:
            events.append(event("free_requested", addr, live.pop(addr)))
        else:
            live[addr] = size
            events.append(event("alloc", addr, size))
        most = max(most, sum(live.values()))
    blocks = [block(addr, size + 12) for addr, size in live.items()] or [block(0, 512, "inactive")]
    peak = device([segment(*blocks)], events)["peak"]
    assert (peak["requested_bytes"] if events else 0) == most
    assert events or peak is None


def test_memory_whose_frames_tell_nothing_has_no_site():
    bare = {**block(0, 512), "frames": [IN_CPP]}
    of_torch = {**block(512, 512), "frames": [IN_CPP, IN_TORCH]}
    typed = {**block(1024, 512), "frames": [{"filename": "<stdin>", "line": 1, "name": "<module>"}]}
    on_windows = {**block(1536, 512), "frames": [{"filename": r"C:\Users\ann\train.py", "line": 3, "name": "step"}]}
    sites = device([segment(bare, of_torch, typed, on_windows)], [event("snapshot", 0, 0)])["peak"]["sites"]
    assert {one["site"] for one in sites} == {None, "linear.py:125 forward", "<stdin>:1 <module>", "train.py:3 step"}


def test_nothing_of_the_machine_s_folders_is_kept():
    text = json.dumps(device([segment(block(0, 512))], [event("alloc", 0, 500)]))
    assert "train.py" in text
    assert not any(word in text for word in ("ann", "/", "project"))


@pytest.mark.parametrize(("most", "lost"), [(2, True), (3, False), (None, None)])
def test_a_history_that_is_full_has_lost_what_was_before(most: int | None, lost: bool | None):
    assert device([segment(block(1, 512))], [event("alloc", 1, 500), event("snapshot", 0, 0)], most)["older_events_lost"] is lost


def test_the_file_is_bounded_and_says_what_is_left_out(monkeypatch: pytest.MonkeyPatch):
    for name in ("SEGMENTS_KEPT", "BLOCKS_KEPT", "SITES_KEPT"):
        monkeypatch.setattr(module, name, 2)
    blocks = [block(512 * number, 512 * (number + 1), line=number) for number in range(3)]
    found = device(
        [segment(*blocks)] + [segment(block(90_000 + n, 512, "inactive")) for n in range(3)], [event("snapshot", 0, 0)]
    )
    assert (found["segments_count"], len(found["segments"])) == (4, 2)
    assert (found["segments"][0]["blocks_count"], len(found["segments"][0]["blocks"])) == (3, 2)
    assert (len(found["peak"]["sites"]), found["peak"]["other_sites_count"], found["peak"]["other_sites_bytes"]) == (2, 1, 500)


def test_each_device_has_its_own_events():
    found = gpu_memory({"segments": [segment(block(0, 512), device=1)], "device_traces": [[], [event("alloc", 0, 500)]]}, "", 9)
    assert [(one["device"], one["peak"]["requested_bytes"]) for one in found["devices"]] == [(1, 500)]


def test_without_a_gpu_nothing_is_recorded_and_nothing_fails():
    if torch.cuda.is_initialized():
        pytest.skip("this process uses a GPU")
    history = MemoryHistory()
    history.start()
    history.stop()
    assert (history.content, history.problem) == (None, None)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no GPU here, and only a GPU's allocator has snapshots")
def test_a_recording_with_memory_on_a_gpu_holds_the_peak_and_the_line_that_made_it(tmp_path: Path):
    from longpole.capture import record

    kept = torch.empty(2**20, dtype=torch.uint8, device="cuda")
    with record(tmp_path / "run", steps=2, wait=1, warmup=1, memory=True) as rec:
        for _ in rec.steps(range(4)):
            torch.empty(2**26, dtype=torch.uint8, device="cuda").fill_(1)
    assert kept.numel() == 2**20
    manifest = read_manifest(tmp_path / "run")
    assert "memory_snapshot_failed" not in {note.code for note in manifest.health}
    (files,) = manifest.ranks
    assert files.memory
    (found,) = json.loads(verified(tmp_path / "run", files.memory).read_bytes())["devices"]
    assert found["peak"]["requested_bytes"] >= 2**26 + 2**20
    assert found["peak"]["sites"][0]["site"].startswith("test_gpu_memory.py:")
    assert not torch._C._cuda_isHistoryEnabled()
