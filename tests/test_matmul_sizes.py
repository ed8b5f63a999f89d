import pytest
from make_trace import kernel, launch, make_trace, op, step

from longpole.analyze.advice.matmul_sizes import matmul_sizes

H100 = {"deviceProperties": [{"id": 0, "name": "NVIDIA H100", "computeMajor": 9, "computeMinor": 0}]}
ODD = "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_bf16_256x128_64x3_tn_align2>(Params)"
ODD_TF32 = "void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_64x64_32x4_nn_align1>(Params)"


def product(name: str, shapes: list[list[int]], us: float = 40):
    calls = [step(1, 0, 100), op("aten::addmm", 0, 9, **{"External id": 5, "Input Dims": shapes}), launch(1, 1, 2)]
    return make_trace(calls, [kernel(name, 10, 10 + us, correlation=1, **{"External id": 5})], record_shapes=1, **H100)


def test_an_odd_vocabulary_slows_the_product_and_is_named():
    (found,) = matmul_sizes(product(ODD, [[30522], [141, 512], [512, 30522]]))
    assert (found.problem.values["op"], found.problem.values["sizes"]) == ("aten::addmm", "141, 30522")
    assert found.changes == (f"kernel:{ODD} x0.5",)
    assert found.title.values["multiple_count"] == 8


def test_tf32_needs_multiples_of_4():
    (found,) = matmul_sizes(product(ODD_TF32, [[512], [1024, 9375], [9375, 512]]))
    assert (found.title.values["multiple_count"], found.problem.values["sizes"]) == (4, "9375")


def test_without_shapes_the_name_of_the_kernel_is_enough():
    (found,) = matmul_sizes(make_trace([step(1, 0, 100)], [kernel(ODD, 0, 40)], **H100))
    assert "{op}" not in found.problem.template


@pytest.mark.parametrize("name", ["volta_fp16_sgemm_fp16_128x64_nn", "cutlass_80_simt_hgemm_256x128_8x4_nn_align1"])
def test_half_precision_outside_tensor_cores_is_told(name: str):
    assert list(matmul_sizes(product(name, [[7, 7], [7, 7]])))


@pytest.mark.parametrize(
    "name",
    [
        ODD.replace("align2", "align8"), "tensorop_s16832gemm_align16", "ampere_sgemm_128x64_nn", "volta_fp16_s884gemm_fp16",
        "cutlass_80_simt_sgemm_128x32_8x5_nn_align1",
    ],
)  # fmt: skip
def test_aligned_products_and_float32_are_left_alone(name: str):
    assert not list(matmul_sizes(product(name, [[7, 7], [7, 7]])))


def test_three_percent_of_the_recording_promise_too_little():
    assert not list(matmul_sizes(product(ODD, [[7, 7], [7, 7]], us=3)))
