import pytest

from longpole.analyze.diffs.cpp_names import cpp_name

ADD = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, at::detail::Array<char*, 3> >(int)"
MANGLED_ADD = "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_15CUDAFunctor_addIfEENS_6detail5ArrayIPcLi3EEEEEvi"


@pytest.mark.parametrize(
    ("name", "function", "names"),
    [
        ("add_kernel(float*, float*)", "add_kernel", set()),
        ("_Z10add_kernelPfS_", "add_kernel", set()),
        ("_ZL10add_kernelPf", "add_kernel", set()),
        ("_ZN2ck12_GLOBAL__N_14gemmEPf", "ck::gemm", set()),
        ("ck::(anonymous namespace)::gemm(float*)", "ck::gemm", set()),
        ("_ZNK3fooEv", "foo", set()),
        (ADD, "at::native::vectorized_elementwise_kernel", {"CUDAFunctor_add"}),
        (MANGLED_ADD, "at::native::vectorized_elementwise_kernel", {"CUDAFunctor_add"}),
        ("_Z4gemmIDF16bLi256ELN2ck4EnumE1EA10_fEvPT0_3Arg", "gemm", {"ck", "Enum", "Arg"}),
        ("void gemm<256, (ck::Enum)1>(Arg)", "gemm", {"ck", "Enum", "Arg"}),
    ],
)
def test_a_mangled_name_has_the_same_parts_as_the_readable_one(name: str, function: str, names: set[str]):
    found = cpp_name(name)
    assert found is not None
    assert (found.function, found.names) == (function, names)


def test_parameters_are_told_apart_where_the_name_is_readable():
    found = cpp_name("void run<Tile<128>>(Params)")
    assert found is not None
    assert (found.arguments, found.names) == ({"Tile"}, {"Tile", "Params"})


@pytest.mark.parametrize(
    "name", ["ampere_sgemm_128x64_tn", "forward (warm)", "<built-in function linear>", "aten::mm", "_Z", "_ZN"]
)
def test_what_is_no_signature_has_no_parts(name: str):
    assert cpp_name(name) is None
