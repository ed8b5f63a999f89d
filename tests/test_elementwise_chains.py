import pytest
from make_trace import annotation, kernel, launch, make_trace, op, step

from longpole.analyze.advice.elementwise_chains import elementwise_chains
from longpole.analyze.trace import Trace

ADD = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>(int)"
GEMM = "ampere_sgemm_128x64_nn"
REDUCE = "void at::native::(anonymous namespace)::cunn_SoftMaxForward<8, float>(float*)"


def running(*work: tuple[str, str, float, float], within: list | None = None, stream: int = 7) -> Trace:
    """Operators with one kernel each: (operator, kernel, start, end), in a step of 100 us."""
    events, kernels = [step(1, 0, 100), *(within or [])], []
    for i, (name, kernel_name, start, end) in enumerate(work):
        events += [op(name, 10 + i, 11 + i, **{"External id": i + 1}), launch(i + 1, 10 + i, 10.5 + i)]
        kernels.append(kernel(kernel_name, start, end, stream, correlation=i + 1, **{"External id": i + 1}))
    return make_trace(events, kernels)


CHAIN = (("aten::add", ADD, 20, 30), ("aten::mul", ADD, 30, 50), ("aten::gelu", ADD, 50, 60))


def test_all_of_a_chain_but_its_longest_kernel_can_go():
    (found,) = elementwise_chains(running(*CHAIN))
    assert found.changes == ("kernel:elementwise x0.500",)  # 20 of 40 us
    assert (found.expected_share, found.problem.values["ops"]) == (0.5, "add, mul, gelu")
    assert (found.evidence[1].start_ns, found.evidence[1].end_ns) == (20_000, 60_000)


def test_a_product_between_them_ends_the_chain():
    assert not list(elementwise_chains(running(CHAIN[0], ("aten::mm", GEMM, 30, 31), ("aten::mul", ADD, 31, 50))))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("aten::add_", "aten::add_"),
        ("aten::clamp", "aten::clamp"),
        ("aten::fill_", "aten::mul"),
        ("aten::miopen_convolution", "aten::mul"),
    ],
)
def test_kernels_on_tensors_without_a_connection_are_no_chain(first: str, second: str):
    assert not list(elementwise_chains(running((first, ADD, 20, 40), (second, ADD, 40, 60))))


def test_two_kernels_of_one_operator_are_no_chain():
    calls = [step(1, 0, 100), op("aten::sum", 10, 20, **{"External id": 1}), launch(1, 11, 12), launch(2, 13, 14)]
    both = [kernel(ADD, 20 * i, 20 * i + 20, correlation=i, **{"External id": 1}) for i in (1, 2)]
    assert not list(elementwise_chains(make_trace(calls, both)))


def test_what_is_compiled_or_of_the_optimizer_is_left_to_others():
    for name in ("Torch-Compiled Region: 0/0", "Optimizer.step#SGD.step"):
        assert not list(elementwise_chains(running(*CHAIN, within=[annotation(name, 5, 30)])))


def test_kernels_without_an_operator_are_left_alone():
    assert not list(elementwise_chains(make_trace([step(1, 0, 100)], [kernel(ADD, 0, 20), kernel(ADD, 20, 40)])))


def test_kernels_on_two_streams_do_not_follow_each_other():
    calls = [step(1, 0, 100)]
    for i, name in enumerate(("aten::add", "aten::mul")):
        calls += [op(name, 10 + i, 11 + i, **{"External id": i + 1}), launch(i + 1, 10 + i, 10.5 + i)]
    both = [kernel(ADD, 20, 40, 7 + i, correlation=i + 1, **{"External id": i + 1}) for i in range(2)]
    assert not list(elementwise_chains(make_trace(calls, both)))


def test_a_chain_that_can_save_one_percent_is_expected_to_save_less():
    assert not list(elementwise_chains(running(("aten::add", ADD, 20, 21), ("aten::mul", ADD, 21, 30))))


def test_a_softmax_between_two_batched_products_is_attention():
    before, after = ("aten::bmm", GEMM, 20, 30), ("aten::bmm", GEMM, 60, 70)
    (found,) = elementwise_chains(running(before, ("aten::mul", ADD, 30, 40), ("aten::_softmax", REDUCE, 40, 60), after))
    assert "attention written out" in found.advice.template
    assert "attention" not in next(elementwise_chains(running(*CHAIN))).advice.template.replace("dot_product_attention", "")
