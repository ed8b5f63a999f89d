"""Backward operators -> the forward operator of each, by autograd's sequence number."""

import numpy as np
import pandas as pd

from . import trace as t
from .host_tree import HostTree
from .trace import Ids, Mask, Trace


def forward_ops(trace: Trace) -> tuple[Ids, Ids]:
    """Rows of the backward operators whose forward operator is in the trace, and the row of that one.

    A forward operator carries the number of the next node of its thread, and so does every operator before it that makes none:
    the node belongs to the last of them, and to what is around that one. The file names the thread of a node as torch counts
    threads, not by its id; it is taken for the thread that has most of the numbers.
    """
    host = trace.host
    numbered = (host.category == t.OP) & (host.sequence >= 0)
    backward = np.flatnonzero(numbered & (host.forward_thread > 0))
    makers = _makers(trace, numbered & (host.forward_thread <= 0))
    found = np.full(len(backward), -1)
    for logical in np.unique(host.forward_thread[backward]):
        mine = np.flatnonzero(host.forward_thread[backward] == logical)
        found[mine] = _of_thread(trace, makers, host.sequence[backward[mine]])
    return backward[found >= 0], found[found >= 0]


def _makers(trace: Trace, forward: Mask) -> Ids:
    """For each number of each thread the last operator that carries it and lies in no other that does."""
    host, tree = trace.host, HostTree.of(trace, forward)
    number = host.sequence[tree.row].astype(np.int64)
    key, keys = pd.factorize(number * len(trace.threads) + host.thread[tree.row])
    outer = np.flatnonzero(tree.outermost(key))
    last = np.empty(len(keys), np.int32)
    last[key[outer]] = tree.row[outer]  # of equal keys the last one stays
    return last


def _of_thread(trace: Trace, makers: Ids, numbers: Ids) -> Ids:
    """For each number the maker on the thread that has most of them, or -1."""
    host, best = trace.host, np.full(len(numbers), -1)
    for thread in np.unique(host.thread[makers]):
        rows = makers[host.thread[makers] == thread]
        rows = rows[np.argsort(host.sequence[rows], kind="stable")]
        place = np.minimum(np.searchsorted(host.sequence[rows], numbers), len(rows) - 1)
        found = np.where(host.sequence[rows[place]] == numbers, rows[place], -1)
        best = found if (found >= 0).sum() > (best >= 0).sum() else best
    return best
