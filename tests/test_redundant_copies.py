from make_trace import kernel, launch, make_trace, memcpy, op, step

from longpole.analyze.advice.redundant_copies import redundant_copies

DOWN, UP = "Memcpy DtoH (Device -> Pageable)", "Memcpy HtoD (Pageable -> Device)"
CAST = "void at::native::unrolled_elementwise_kernel<direct_copy_kernel_cuda>(int)"


def trips(count: int, up_bytes: int, down_bytes: int = 100_000):
    copies = [
        memcpy(name, start, start + 10, bytes=size)
        for i in range(count)
        for name, start, size in ((DOWN, 40 * i, down_bytes), (UP, 40 * i + 20, up_bytes))
    ]
    return make_trace([step(1, 0, 100)], copies)


def test_a_copy_to_the_host_and_back_could_stay_on_the_gpu():
    (found,) = redundant_copies(trips(2, 100_000))
    assert (found.id, found.changes) == ("copies_to_the_host_and_back", ("copy:d2h x0.000", "copy:h2d x0.000"))
    assert found.problem.values == {"copies_count": 2, "copy_bytes": 200_000, "copies_ns": 40_000}


def test_other_copies_that_way_keep_their_time():
    copies = [memcpy(name, 20 * i, 20 * i + 10, bytes=100_000) for i, name in enumerate((DOWN, UP, DOWN, UP))]
    (found,) = redundant_copies(make_trace([step(1, 0, 100)], [*copies, memcpy(UP, 80, 100, bytes=9)]))
    assert found.changes == ("copy:d2h x0.000", "copy:h2d x0.500")


def test_other_sizes_small_ones_and_a_single_pair_may_be_chance():
    for trace in (trips(2, 90_000), trips(2, 4, 4), trips(1, 100_000)):
        assert not list(redundant_copies(trace))


def casts(second: list[str], shape: list[list[int]]):
    kinds = [(["c10::BFloat16", "float"], [[8, 8], [8, 8]]), (second, shape)] * 2
    calls, kernels = [step(1, 0, 100)], []
    for i, (types, shapes) in enumerate(kinds, 1):
        told = {"External id": i, "Input Dims": [*shapes, []], "Input type": [*types, "Scalar"]}
        calls += [op("aten::copy_", 10 * i, 10 * i + 5, **told), launch(i, 10 * i + 1, 10 * i + 2)]
        kernels.append(kernel(CAST, 10 * i, 10 * i + 10, correlation=i, **{"External id": i}))
    return make_trace(calls, kernels, record_shapes=1)


def test_a_cast_and_the_cast_back_right_after_it_are_told():
    (found,) = redundant_copies(casts(["float", "c10::BFloat16"], [[8, 8], [8, 8]]))
    assert (found.id, found.changes, found.problem.values["casts_count"]) == (
        "casts_there_and_back",
        ("kernel:elementwise x0.000",),
        2,
    )


def test_casts_of_another_shape_or_the_same_way_are_needed():
    assert not list(redundant_copies(casts(["float", "c10::BFloat16"], [[4, 4], [4, 4]])))
    assert not list(redundant_copies(casts(["c10::BFloat16", "float"], [[8, 8], [8, 8]])))
    assert not list(redundant_copies(make_trace([step(1, 0, 100)])))
