import pytest
from hypothesis import given
from hypothesis import strategies as st

from longpole.analyze.short_names import SHORT_LENGTH, short_name, short_names


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("ampere_sgemm_128x64_tn", "ampere_sgemm_128x64_tn"),
        ("void flash::kernel(Params)", "flash::kernel"),
        ("Memcpy HtoD (Pageable -> Device)", "Memcpy HtoD (Pageable -> Device)"),
        ("my kernel", "my kernel"),
        ("void cutlass::Kernel<cutlass_80_tensorop>(cutlass_80_tensorop::Params)", "cutlass::Kernel<cutlass_80_tensorop>"),
        (
            "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, Array<char*, 3> >(int)",
            "at::native::vectorized_elementwise_kernel<CUDAFunctor_add>",
        ),
        (
            "void at::native::elementwise_kernel<128, at::native::BinaryFunctor<float, at::native::MulFunctor<float> > >(int)",
            "at::native::elementwise_kernel<MulFunctor>",
        ),
        ("void at::native::elementwise_kernel<4, at::native::direct_copy_kernel_cuda(at::I&)>()",
         "at::native::elementwise_kernel<direct_copy_kernel_cuda>"),
        ("void at::native::(anonymous namespace)::softmax<float, 3>(float*)", "at::native::softmax<…>"),
        ("std::enable_if<!(false), void>::type inner::gemv<int, 5>(Params<int>)", "inner::gemv<…>"),
        ("void run<f(int)::{lambda(int)->int}, 3>(int)", "run<…>"),
        ("_ZN5aiter12quant_kernelIDF16bLi64EEEvPT_", "aiter::quant_kernel<…>"),
        ("_ZN7ck_tile6kentryILi1ENS_9NormalizeINS_4TileEEEEEvv", "ck_tile::kentry<Normalize>"),
        ("_ZN2ck12_GLOBAL__N_14gemmEPf", "ck::gemm"),
        ("_ZN", "_ZN"),
        ("_ZNK3fooEv", "_ZNK3fooEv"),
    ],
)  # fmt: skip
def test_a_short_name_keeps_what_the_kernel_computes(name: str, expected: str):
    assert short_name(name) == expected


def test_a_name_that_is_too_long_loses_its_namespaces_and_then_its_end():
    assert short_name("outer::" * 10 + "kernel_of_some_length<int>(int)") == "kernel_of_some_length<…>"
    assert short_name("Cijk_" * 40) == ("Cijk_" * 40)[: SHORT_LENGTH - 1] + "…"


def test_kernels_that_differ_in_template_arguments_show_which():
    names = ["void sum<float, 4>(int)", "void sum<float, 2>(int)", "void other<float>(int)"]
    assert list(short_names(names).values()) == ["sum<…> [4]", "sum<…> [2]", "other<…>"]


def test_kernels_whose_differences_do_not_tell_are_numbered():
    names = ["void sum<1, 2>()", "void sum<2, 1>()", "void sum<1, 2>(int)"]
    assert list(short_names(names).values()) == ["sum<…>", "sum<…> #2", "sum<…> [int]"]
    assert short_names([]) == {}


PIECES = st.sampled_from(
    ["void ", "a::", "b", "<", ">", "(", ")", " ", "1", "Functor", ", ", "_ZN", "3foo", "I", "->", "#2", "x" * 30]
)


@given(st.lists(st.lists(PIECES, max_size=12).map("".join), max_size=8))
def test_no_two_names_look_alike_and_all_fit_a_table_cell(names: list[str]):
    found = short_names(names)
    assert set(found) == set(names)
    assert len(set(found.values())) == len(found)
    assert all(len(text) <= SHORT_LENGTH for text in found.values())
