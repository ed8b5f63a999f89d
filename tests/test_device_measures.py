import pandas as pd

from longpole.analyze.device_measures import by_device

COLUMNS = {"gpu_busy_ns": "busy_ns", "gpu_speed_gbps": "speed_gbps"}


def test_of_the_only_device_a_measure_is_a_number():
    rows = pd.DataFrame({"device": [3], "busy_ns": [40], "speed_gbps": [1.5]})
    assert by_device(rows, COLUMNS) == {"gpu_busy_ns": 40, "gpu_speed_gbps": 1.5}


def test_of_several_devices_it_is_an_object_that_leaves_out_what_a_device_lacks():
    rows = pd.DataFrame({"device": [0, 1], "busy_ns": [40, 50], "speed_gbps": [float("nan"), 1.5]})
    assert by_device(rows, COLUMNS) == {"gpu_busy_ns": {0: 40, 1: 50}, "gpu_speed_gbps": {1: 1.5}}


def test_what_no_device_has_is_absent():
    assert by_device(pd.DataFrame({"device": [0], "busy_ns": [40], "speed_gbps": [float("nan")]}), COLUMNS) == {"gpu_busy_ns": 40}
    assert by_device(pd.DataFrame(columns=["device", "busy_ns", "speed_gbps"]), COLUMNS) == {}
