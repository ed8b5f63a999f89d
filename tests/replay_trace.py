"""Four equal steps of 100 µs, each: two launches of 5, then a wait for the GPU until 90; a kernel 10 to 50, another 50 to 85.

Without the wait the GPU's 75 µs a step remain; with the first kernel at half a step takes 80.
"""

from make_trace import Event, host, kernel, launch, loop, make_trace

from longpole.analyze.trace import Trace

STEPS_COUNT = 4


def waiting_trace(
    first: str = "some_gemm", second: str = "some_softmax", *more: list[Event], steps_count: int = STEPS_COUNT
) -> Trace:
    return make_trace(*waiting_events(first, second, steps_count=steps_count), *more)


def waiting_events(first: str = "some_gemm", second: str = "some_softmax", steps_count: int = STEPS_COUNT) -> list[list[Event]]:
    calls, work = [], []
    for number in range(steps_count):
        start, a, b = 100 * number, 2 * number + 1, 2 * number + 2
        calls += [launch(a, start, start + 5), launch(b, start + 5, start + 10)]
        calls.append(host("cuda_runtime", "cudaDeviceSynchronize", start + 10, start + 90))
        work += [kernel(first, start + 10, start + 50, correlation=a), kernel(second, start + 50, start + 85, correlation=b)]
    return [loop([100] * steps_count), calls, work]
