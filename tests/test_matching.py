import pytest
from hypothesis import given
from hypothesis import strategies as st

from longpole.analyze.diffs.matching import Match, matches

NAMES = st.lists(
    st.sampled_from(
        ["gemm_32x32", "gemm_64x32", "gemm_64x64", "f 0x1", "f 0x2", "f 0x3", "aten::add", "aten::add.Tensor", "a", "b"]
    ),
    unique=True,
)

ALIKE = [
    # addresses
    ("<built-in method run of Engine object at 0x7f12>", "<built-in method run of Engine object at 0x7f99>"),
    # mangled
    ("_Z10add_kernelPfS_", "add_kernel(float*, float*)"),
    ("_ZN2at6native3addI7FunctorEEvPf", "void at::native::add<Functor>(float*)"),
    # paths and lines
    ("proj\\train.py(3): main", "proj/train.py(3): main"),
    ("C:\\work\\proj\\train.py(3): main", "/home/u/proj/train.py(5): main"),
    ("/usr/lib/python3/dist-packages/torch/func.py(9): relu", "/opt/lib/python3.11/site-packages/torch/func.py(8): relu"),
    ("/opt/env/lib/python3.10/json/decoder.py(1): decode", "/usr/lib/python3.12/json/decoder.py(2): decode"),
    ("torch/nn/functional.py(9): relu", "/opt/site-packages/torch/nn/functional.py(8): relu"),
    ("/data/first/net.py(7): forward", "/data/second/net.py(7): forward"),
    # tiles, stages and template numbers
    ("ampere_sgemm_128x64_tn", "ampere_sgemm_64x64_tn"),
    ("ampere_sgemm_64x32_sliced1x4_nt", "ampere_sgemm_32x32_sliced1x2_nt"),
    ("cutlass_80_tensorop_f16_s16816gemm_256x128_32x3_nn_align8", "cutlass_80_tensorop_f16_s1688gemm_128x128_16x4_nn_align4"),
    ("void run<float, 2ul>(int)", "void run<float, 5ul>(int)"),
    ("void cutlass::Kernel<cutlass_80_s1688gemm_64x64_nn>(P)", "void cutlass::Kernel<cutlass_80_s1688gemm_64x128_nn>()"),
    ("Cijk_Alik_Bljk_MT256x32x64_MI16_SN_PGR1", "Cijk_Alik_Bljk_MT64x32x64_MI32_SN"),
    # overloads and numbers of torch
    ("aten::add.Tensor", "aten::add"),
    ("AddmmBackward0", "AddmmBackward1"),
    ("autograd::engine::evaluate_function: AddmmBackward0", "autograd::engine::evaluate_function: AddmmBackward1"),
    ("triton_poi_fused_add_12", "triton_poi_fused_add_3"),
    ("Torch-Compiled Region: 0/0", "Torch-Compiled Region: 1/0"),
    ("## Call Fx fmwwonu52dvevbsmlh743q5tkclrt4gcqpzea ##", "## Call Fx fa2wonu52dvevbsmlh743q5tkclrt4gcqpzff ##"),
    ("nn.Module: Linear_3", "nn.Module: Linear_0"),
]  # fmt: skip
UNLIKE = [
    ("Memcpy HtoD (Pageable -> Device)", "Memcpy HtoD (Pinned -> Device)"),
    ("aten::add", "aten::add_"),
    ("aten::conv2d", "aten::conv3d"),
    ("ampere_sgemm_128x64_tn", "ampere_sgemm_128x64_nn"),
    ("gemm_f16", "gemm_f32"),
    ("void run<AddFunctor<float>>(int)", "void run<MulFunctor<float>>(int)"),
    ("proj/train.py(3): main", "proj/train.py(3): step"),
    ("forward (warm)", "forward (cold)"),
]


@pytest.mark.parametrize(("before", "after"), ALIKE)
def test_names_that_are_only_written_differently_match(before: str, after: str):
    assert matches([before], [after]) == [Match((before,), (after,))]


@pytest.mark.parametrize(("before", "after"), UNLIKE)
def test_names_of_different_things_do_not(before: str, after: str):
    assert matches([before], [after]) == [Match((before,), ()), Match((), (after,))]


def test_a_name_that_both_have_is_matched_with_itself_alone():
    found = matches(["gemm_64x64", "gemm_32x32"], ["gemm_64x32", "gemm_32x32"])
    assert found == [Match(("gemm_32x32",), ("gemm_32x32",)), Match(("gemm_64x64",), ("gemm_64x32",))]
    assert matches(["gemm_32x32"], ["gemm_64x32", "gemm_32x32"])[1] == Match((), ("gemm_64x32",))


def test_several_that_are_alike_are_one_match_called_by_the_first_of_the_second_recording():
    (found,) = matches(["gemm_8x8", "gemm_16x8"], ["gemm_64x32", "gemm_32x32", "gemm_128x8"])
    assert (found.before, found.after) == (("gemm_8x8", "gemm_16x8"), ("gemm_64x32", "gemm_32x32", "gemm_128x8"))
    assert found.name == "gemm_64x32"


def test_the_nearer_likeness_comes_first():
    found = matches(["/a/x/net.py(1): f"], ["/b/y/net.py(1): f", "/c/x/net.py(9): f"])
    assert found == [Match(("/a/x/net.py(1): f",), ("/c/x/net.py(9): f",)), Match((), ("/b/y/net.py(1): f",))]


@given(NAMES, NAMES)
def test_every_name_is_in_one_match_and_no_two_matches_have_one_name(before: list[str], after: list[str]):
    found = matches(before, after)
    assert sorted(name for match in found for name in match.before) == sorted(before)
    assert sorted(name for match in found for name in match.after) == sorted(after)
    assert len({match.name for match in found}) == len(found)
    assert {match.before for match in found if match.before == match.after} >= {(name,) for name in before if name in after}


@given(NAMES, NAMES)
def test_the_other_way_round_the_same_names_match(before: list[str], after: list[str]):
    there = {(match.before, match.after) for match in matches(before, after)}
    assert there == {(match.after, match.before) for match in matches(after, before)}
