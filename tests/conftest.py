import signal
from pathlib import Path

import pytest
from hypothesis import settings
from shared_data import SHARED

settings.register_profile("steady", deadline=None)  # a slow machine is no failure
settings.load_profile("steady")
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # what a shell runs in its background ignores it, and so would our programs
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of real traces and reference figures, which is not part of the repository."""
    if not SHARED.is_dir():
        pytest.skip("no shared test data: set LONGPOLE_SHARED to its folder, or put it beside the repository as ../shared")
    return SHARED
