import time

from longpole.capture import core_time as module
from longpole.capture.core_time import CoreTime, core_time


def test_a_thread_that_sleeps_asks_for_no_core():
    before = core_time()
    time.sleep(0.05)
    between = core_time().since(before)
    assert 0 <= between.cpu_ns < 40_000_000
    assert between.waited_ns is None or between.waited_ns >= 0


def test_a_thread_that_works_has_cpu_time():
    before, end = core_time(), time.thread_time_ns() + 20_000_000
    while time.thread_time_ns() < end:
        pass
    assert core_time().since(before).cpu_ns >= 20_000_000


def test_where_the_system_does_not_say_waiting_is_unknown(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "SCHEDULER", tmp_path / "missing")
    assert core_time().waited_ns is None
    assert CoreTime(5, 3).since(CoreTime(1, 1)) == CoreTime(4, 2)
    assert CoreTime(5, 3).since(core_time()).waited_ns is None
