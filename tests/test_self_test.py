"""`longpole doctor --capture`: whether the profiler delivers, and why it does not."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from longpole.capture.self_test import SelfTest, self_test, why_no_kernels

NO_KERNELS = SelfTest(ops=1, torch="2.13.0+cu126", cuda_build="12.6", sees_gpu=True, can_record_gpu=True)


def doctor(**environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "longpole.reports.cli", "doctor", "--capture"]
    return subprocess.run(command, env=os.environ | environment, capture_output=True, text=True, encoding="utf-8")


def test_operators_arrive_here():
    torch = pytest.importorskip("torch")
    found = self_test()
    assert (found.problem, found.torch, found.sees_gpu) == ("", torch.__version__, torch.cuda.is_available())
    assert found.ops >= 1
    assert (found.kernels > 0) == torch.cuda.is_available()


def test_the_status_is_0_where_capture_works_and_the_rows_come_last():
    torch = pytest.importorskip("torch")
    done = doctor()
    rows = [line.split(maxsplit=2)[:2] for line in done.stdout.splitlines()]
    assert (done.returncode, done.stderr) == (0, "")
    assert rows[-1] == ["ok", "kernels"] if torch.cuda.is_available() else rows[-1] == ["ok", "cpu_ops"]


def test_the_status_is_1_where_torch_cannot_be_imported_and_the_reason_is_said(tmp_path: Path):
    (tmp_path / "torch.py").write_text("raise OSError('libcudart.so.12: cannot open shared object file')", encoding="utf-8")
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    done = doctor(PYTHONPATH=path)
    (row,) = [line for line in done.stdout.splitlines() if "cpu_ops" in line]
    assert (done.returncode, row.startswith("missing")) == (1, True)
    assert "exit status 1: OSError: libcudart.so.12: cannot open shared object file" in row


def test_a_profiler_that_takes_its_process_down_is_told(tmp_path: Path):
    (tmp_path / "torch.py").write_text("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", encoding="utf-8")
    code = f"import os; os.environ['PYTHONPATH'] = {str(tmp_path)!r} + os.pathsep + os.environ.get('PYTHONPATH', '')\n"
    code += "from longpole.capture.self_test import self_test; print(self_test().problem)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.startswith("the profiler ended with signal 11"), done.stderr


@pytest.mark.parametrize(
    ("change", "environment", "driver", "says"),
    [
        ({"messages": ("E: CUPTI_ERROR_INSUFFICIENT_PRIVILEGES",)}, {}, "", "NVreg_RestrictProfilingToAdminUsers=0"),
        ({"messages": ("x error 39 CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED",)}, {}, "", "another profiler holds CUPTI"),
        (
            {"messages": ("CUPTI initialization failed - CUDA profiler activities will be missing",)},
            {},
            "",
            "CUPTI cannot be init",
        ),
        ({}, {"CUDA_INJECTION64_PATH": "/opt/nsys/libToolsInjection64.so"}, "", "set (libToolsInjection64.so): another profiler"),
        ({"cuda_build": None, "sees_gpu": False}, {}, "", "2.13.0+cu126 is a build without CUDA"),
        ({"sees_gpu": False}, {}, "", "CUDA_VISIBLE_DEVICES"),
        ({"can_record_gpu": False}, {}, "", "built without CUPTI"),
        ({}, {}, "RmProfilingAdminOnly: 1\n", "only administrators"),
        ({}, {}, "RmProfilingAdminOnly: 0\n", "no reason can be told"),
        ({}, {"KINETO_USE_DAEMON": "1"}, "", "no reason can be told; set: KINETO_USE_DAEMON=1"),
        ({"messages": ("first", "WARNING last")}, {}, "", "; torch says: WARNING last"),
    ],
)
def test_the_reason_for_missing_kernels_is_told(change: dict, environment: dict, driver: str, says: str):
    assert says in why_no_kernels(replace(NO_KERNELS, **change), environment, driver)
