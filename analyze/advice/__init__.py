"""What could be changed in a run with a GPU: one file each looks for one kind of trouble, `ADVICE` lists them.

Each is a function over a Trace that gives proposals, none where the trouble is absent, or where the trace cannot tell.
"""

from collections.abc import Callable, Iterator

from ..proposals import Proposal
from ..trace import Trace
from .elementwise_chains import elementwise_chains
from .exposed_communication import exposed_communication
from .exposed_copies import exposed_copies
from .first_step import first_step
from .graph_breaks import graph_breaks
from .host_syncs import host_syncs
from .input_pipeline import input_pipeline
from .launch_bound import launch_bound
from .matmul_precision import matmul_precision
from .matmul_sizes import matmul_sizes
from .memory_headroom import memory_headroom
from .pageable_copies import pageable_copies
from .profiler_overhead import profiler_overhead
from .redundant_copies import redundant_copies
from .unfused_optimizer import unfused_optimizer
from .unmarked_input import unmarked_input
from .zeroed_gradients import zeroed_gradients

ADVICE: tuple[Callable[[Trace], Iterator[Proposal]], ...] = (
    elementwise_chains,
    exposed_communication,
    exposed_copies,
    first_step,
    graph_breaks,
    host_syncs,
    input_pipeline,
    launch_bound,
    matmul_precision,
    matmul_sizes,
    memory_headroom,
    pageable_copies,
    profiler_overhead,
    redundant_copies,
    unfused_optimizer,
    unmarked_input,
    zeroed_gradients,
)
