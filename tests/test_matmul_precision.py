import pytest
from make_trace import kernel, launch, make_trace, op, step

from longpole.analyze.advice.matmul_precision import matmul_precision
from longpole.analyze.trace import Trace

SGEMM, SCUDNN = "ampere_sgemm_128x64_nn", "cudnn_ampere_scudnn_128x64_relu_medium_nn_v1"
TF32 = "void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_128x64_32x6_nn_align4>(Params)"
A100 = {"deviceProperties": [{"id": 0, "name": "NVIDIA A100", "computeMajor": 8, "computeMinor": 0}]}
V100 = {"deviceProperties": [{"id": 0, "name": "Tesla V100", "computeMajor": 7, "computeMinor": 0}]}
P100 = {"deviceProperties": [{"id": 0, "name": "Tesla P100", "computeMajor": 6, "computeMinor": 0}]}


def running(*names: str, us: float = 40, **properties) -> Trace:
    """One kernel of each name, one after the other, in a step of 100 us."""
    return make_trace([step(1, 0, 100)], [kernel(name, 40 * i, 40 * i + us) for i, name in enumerate(names)], **properties)


def test_products_in_float32_on_an_a100_are_to_run_in_tf32():
    (found,) = matmul_precision(running(SGEMM, **A100))
    assert found.changes == ("kernel:ampere_sgemm x0.125",)
    assert 'set_float32_matmul_precision("high")' in found.advice.template
    assert found.problem.values == {"kernels_count": 1, "kernels_ns": 40_000}
    assert (found.evidence[1].start_ns, found.evidence[1].end_ns) == (0, 40_000)


def test_a_v100_has_no_tf32_and_gets_float16():
    (found,) = matmul_precision(running("volta_sgemm_64x64_nt", **V100))
    assert "torch.float16" in found.advice.template
    assert "set_float32_matmul_precision" not in found.advice.template


@pytest.mark.parametrize("properties", [P100, {}])
def test_a_gpu_without_tensor_cores_or_of_an_unknown_kind_gets_no_advice(properties: dict):
    assert not list(matmul_precision(running("volta_sgemm_64x64_nt", **properties)))


def test_without_properties_a_kernel_made_for_ampere_tells_the_kind():
    assert list(matmul_precision(running(SGEMM)))


@pytest.mark.parametrize(
    "name",
    [
        TF32,
        "ampere_bf16_s16816gemm_bf16_128x64_tn",
        "sm80_xmma_gemm_f32f32_tf32f32_f32_tn_n",
        "gemv2T_kernel_val<int, float>",
        "demo",
    ],
)
def test_kernels_on_tensor_cores_and_those_that_do_not_tell_are_left_alone(name: str):
    assert not list(matmul_precision(running(name, **A100)))


def test_where_other_products_run_in_tf32_it_is_on_already():
    assert not list(matmul_precision(running(SGEMM, TF32, **A100)))


def test_tf32_of_products_says_nothing_of_convolutions():
    (found,) = matmul_precision(running(SCUDNN, TF32, **A100))
    assert found.changes == ("kernel:ampere_scudnn x0.125",)


def test_half_a_percent_of_the_recording_is_not_worth_it():
    assert not list(matmul_precision(running(SGEMM, us=0.5, **A100)))


def test_amds_float32_outside_its_matrix_cores_gets_bfloat16():
    calls = [step(1, 0, 100), op("aten::mm", 0, 9), launch(1, 1, 2, name="hipLaunchKernel")]
    plain, matrix = "Cijk_Ailk_Bljk_SB_MT64x64x8_SE", "Cijk_Ailk_Bljk_SB_MT64x64x8_MI16x16x1_SE"
    (found,) = matmul_precision(make_trace(calls, [kernel(plain, 10, 50, correlation=1)]))
    assert found.changes == (f"kernel:{plain} x0.250",)
    assert not list(matmul_precision(make_trace(calls, [kernel(matrix, 10, 50, correlation=1)])))
