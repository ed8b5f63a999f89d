import pytest
from make_trace import kernel, make_bundle, make_trace, op, step

from longpole.analyze.facts import facts
from longpole.analyze.kernels import number_type

EVENTS = [step(1, 0, 100), op("aten::mm", 0, 40)]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("volta_sgemm_128x64_nn", "float32"),
        ("void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_64x64_32x4_nn_align1>", "TF32"),
        ("void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_bf16_256x128_64x3_tn_align2>", "bfloat16"),
        ("sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64", "bfloat16"),
        ("ampere_fp16_s16816gemm_fp16_128x128_ldg8_f2f_stages_32x5_tn", "float16"),
        ("Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT256x32x64_MI16x16x1_SN", "bfloat16"),
        ("nvjet_qqtst_128x64_e4m3", "float8"),
        ("some_gemm", None),
    ],
)
def test_the_name_of_a_kernel_tells_what_it_multiplies(name: str, kind: str | None):
    assert number_type(name) == kind


def test_kinds_with_a_tenth_of_the_multiplying_are_told():
    work = [kernel("volta_sgemm_nn", 0, 50), kernel("ampere_fp16_gemm_tn", 50, 90), kernel("bf16_gemm", 90, 91)]
    assert facts(make_trace(EVENTS, work))["Numbers multiplied on the GPU"] == "float16, float32"
    assert facts(make_trace(EVENTS, [kernel("some_gemm", 0, 9)]))["Numbers multiplied on the GPU"] is None


def test_without_gpu_work_facts_of_gpus_do_not_apply():
    assert "GPU runtime" not in facts(make_trace(EVENTS))
    assert facts(make_trace(EVENTS))["GPU"] == "no GPU"


def test_variables_that_change_the_speed_are_listed():
    assert facts(make_trace(EVENTS))["Variables set"] is None
    assert facts(make_bundle(EVENTS))["Variables set"] == "none"
    program = {"env.OMP_NUM_THREADS": "2", "env.MKL_NUM_THREADS": "1", "threads": 2}
    assert facts(make_bundle(EVENTS, program=program))["Variables set"] == "MKL_NUM_THREADS=1, OMP_NUM_THREADS=2"
