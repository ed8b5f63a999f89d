"""When a recording is wanted."""

import os
import time
from pathlib import Path

from longpole.capture.running.requests import Requests


def test_one_recording_is_wanted_at_once_and_then_none():
    requests = Requests()
    assert (requests.wanted(), requests.more) == (True, True)
    requests.served()
    assert (requests.wanted(), requests.more) == (False, False)


def test_as_many_as_were_asked_for():
    requests = Requests(repeat=3)
    for _ in range(3):
        assert requests.wanted()
        requests.served()
    assert not requests.wanted()


def test_none_before_its_time():
    requests = Requests(after_s=0.2)
    assert not requests.wanted()
    time.sleep(0.21)
    assert requests.wanted()


def test_on_demand_none_until_the_file_is_touched_and_again_only_when_it_is_touched_again(tmp_path: Path):
    file = tmp_path / "now"
    requests = Requests(on_demand=file, repeat=2)
    assert not requests.wanted()
    file.touch()
    time.sleep(0.51)  # it is looked at twice a second
    assert requests.wanted()
    requests.served()
    time.sleep(0.51)
    assert not requests.wanted()
    os.utime(file, (1, 1))
    time.sleep(0.51)
    assert requests.wanted()


def test_a_file_that_is_there_already_asks_for_nothing(tmp_path: Path):
    (tmp_path / "now").touch()
    assert not Requests(on_demand=tmp_path / "now").wanted()
