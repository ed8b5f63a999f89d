"""Environment of this process -> which rank it is, of how many, and what the ranks that were started with it have in common.

Nothing is asked of other ranks: each finds the same on its own.
"""

import hashlib
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from multiprocessing import current_process, parent_process
from pathlib import PurePath

# They agree between the ranks of a launch on all machines. A second launch may have the same: then a rank finds its own files.
COMMON_NAMES = ("MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT", "SLURM_JOB_ID")
THIS_MACHINE = ("localhost", "127.0.0.1", "::1")
TOKEN_DIGITS = 16


@dataclass(frozen=True)
class Launch:
    """One rank of those that were started together; `token`: equal for all of them, None of a process on its own."""

    rank: int = 0
    world_size: int = 1
    token: str | None = None


def this_launch() -> Launch:
    """As torch.distributed says where it is initialised, else as the launcher wrote into the environment."""
    rank, world_size = _distributed() or _of_environment(os.environ)
    return Launch(rank, world_size, token_of(os.environ, world_size)) if world_size > 1 else Launch()


def token_of(environment: Mapping[str, str], world_size: int) -> str:
    """Digits that are equal for the ranks of a launch, and tell nobody its addresses."""
    shared = [f"{name}={environment.get(name)}" for name in COMMON_NAMES]
    text = "\n".join([str(world_size), *shared, _own_to_one_machine(environment, world_size)])
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:TOKEN_DIGITS]


def _own_to_one_machine(environment: Mapping[str, str], world_size: int) -> str:
    """What the starting process drew at random; empty where ranks on another machine would have other values."""
    if environment.get("LOCAL_WORLD_SIZE") == str(world_size) and "TORCHELASTIC_ERROR_FILE" in environment:
        return str(PurePath(environment["TORCHELASTIC_ERROR_FILE"]).parent.parent)  # the last two are the rank's own
    if "TORCHELASTIC_RUN_ID" not in environment and environment.get("MASTER_ADDR") in THIS_MACHINE and parent_process():
        return hashlib.sha256(current_process().authkey).hexdigest()  # as of torch.multiprocessing.spawn
    return ""


def _distributed() -> tuple[int, int] | None:
    dist = sys.modules.get("torch.distributed")  # a program that has not imported it has not initialised it
    return (dist.get_rank(), dist.get_world_size()) if dist and dist.is_available() and dist.is_initialized() else None


def _of_environment(environment: Mapping[str, str]) -> tuple[int, int]:
    rank, world_size = environment.get("RANK", ""), environment.get("WORLD_SIZE", "")
    known = rank.isdecimal() and world_size.isdecimal() and int(rank) < int(world_size)
    return (int(rank), int(world_size)) if known else (0, 1)
