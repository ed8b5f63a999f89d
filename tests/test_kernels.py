import pytest

from longpole.analyze.kernels import device_class, full_precision, has_tensor_cores, kernel_class


@pytest.mark.parametrize(
    ("category", "name", "expected"),
    [
        ("kernel", "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgs)", "communication"),
        ("kernel", "ncclKernel_SendRecv", "communication"),
        ("kernel", "void vllm::cross_device_reduce_1stage<float, 2>", "communication"),
        ("kernel", "two_shot_allreduce_kernel", "communication"),
        ("kernel", "one_shot_all_reduce_kernel", "communication"),
        ("kernel", "multimem_all_reduce_kernel", "communication"),
        ("kernel", "void deep_ep::intranode::dispatch<8>", "communication"),
        ("kernel", "RCCL_kernel", "communication"),
        ("kernel", "ampere_sgemm_128x64_tn", "compute"),
        ("gpu_memcpy", "Memcpy HtoD (Pageable -> Device)", "copy"),
        ("gpu_memcpy", "nccl copy", "copy"),
        ("gpu_memset", "Memset (Device)", "compute"),
    ],
)
def test_the_class_comes_from_the_category_and_then_from_the_name(category: str, name: str, expected: str):
    assert device_class(category, name) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("ampere_fp16_s16816gemm_fp16_128x128_tn", "gemm"),
        ("nvjet_hsh_128x256_64x4_2x1_v_bz_coopA_TNN", "gemm"),
        ("void cutlass::Kernel2<cutlass_80_tensorop_s1688gemm_128x128>(Params)", "gemm"),
        ("Cijk_Alik_Bljk_BBS_BH_MT64x64x64_MI16x16x16x1", "gemm"),
        ("triton_tem_fused_addmm_3", "gemm"),
        ("void splitKreduce_kernel<32, 16>(int)", "gemm"),
        ("sm80_xmma_fprop_implicit_gemm_f16f16", "convolution"),
        ("void cutlass::Kernel2<cutlass_tensorop_s16816dgrad_optimized>(Params)", "convolution"),
        ("void cudnn::winograd::generateTiles<0>()", "convolution"),
        ("void flash_fwd_kernel<Flash_fwd_kernel_traits<64>>(Params)", "attention"),
        ("fmha_cutlassF_f16_aligned_64x64_rf_sm80(Params)", "attention"),
        ("void cutlass::device_kernel<flash::FlashAttnFwdSm90>(Params)", "attention"),
        ("void at::native::vectorized_layer_norm_kernel<float>(int)", "normalisation"),
        ("triton_per_fused_native_layer_norm_0", "normalisation"),
        ("triton_red_fused_addmm_sum_1", "reduction"),
        ("void at::native::reduce_kernel<512, 1, ReduceOp<float>>()", "reduction"),
        ("void cunn_SoftMaxForward<4>()", "reduction"),
        ("triton_poi_fused_convolution_relu_2", "elementwise"),
        ("void at::native::vectorized_elementwise_kernel<4, convert_functor>()", "elementwise"),
        ("void multi_tensor_apply_kernel<TensorListMetadata<4>, FusedAdamMathFunctor<float>>()", "optimizer"),
        ("void multi_tensor_apply_kernel<BinaryOpFunctor<{lambda()#1}>>()", "elementwise"),
        ("void cudnn::ops::scalePackedTensor_kernel<float, float>(long, float*, float)", "elementwise"),
        ("void fbgemm_gpu::(anonymous namespace)::_FP8rowwise_to_float_cuda_kernel<float>(int)", "elementwise"),
        ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL", "communication"),
        ("void cub::DeviceRadixSortOnesweepKernel<int>()", "other"),
        ("demo", "other"),
    ],
)
def test_the_kind_of_a_kernel_is_told_from_its_name(name: str, expected: str):
    assert kernel_class("kernel", name) == expected


def test_copies_and_memsets_are_told_from_their_category():
    assert kernel_class("gpu_memcpy", "gemm") == "copy"
    assert kernel_class("gpu_memset", "gemm") == "other"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("volta_fp16_s884gemm_fp16_128x128_ldg8_f2f_nn", True),
        ("turing_fp16_s1688gemm_fp16_128x128_ldg8_f2f_nt", True),
        ("ampere_bf16_s16816gemm_bf16_128x64_tn", True),
        ("cutlass_80_wmma_tensorop_bf16_s161616gemm_bf16_32x32", True),
        ("sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize64x64x64", True),
        ("cutlass3x_sm100_tensorop_s64x128x16gemm_bf16", True),
        ("nvjet_tst_192x192_64x4_2x1_v_bz_coopA_TNT", True),
        ("Cijk_Alik_Bljk_BBS_BH_MT64x64x64_MI16x16x16x1", True),
        ("igemm_fwd_gtcx3_nhwc_bf16_bx0_ex1_bt128x128x32", True),
        ("ampere_sgemm_128x64_nn", False),
        ("sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize32x32x8_ffma", False),
        ("cutlass_80_simt_sgemm_128x32_8x5_nn_align1", False),
        ("Cijk_Ailk_Bljk_SB_MT64x64x8_SE_MIAV0", False),
        ("void at::native::vectorized_elementwise_kernel<4>()", False),
    ],
)
def test_tensor_cores_are_told_where_the_name_tells_them(name: str, expected: bool):
    assert has_tensor_cores(name) is expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("cudnn_infer_volta_scudnn_128x64_relu_medium_nn_v1", "volta_scudnn"),
        ("void cutlass::Kernel2<cutlass_80_simt_sgemm_128x32_8x5_nn_align1>(Params)", "simt_sgemm"),
        ("sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize32x32x8_ffma", "xmma_gemm_f32f32_f32f32_f32"),
        ("void cudnn::detail::dgrad_engine<float, 512, 6, 5, 3, 3, 3, false>(int)", "dgrad_engine<float"),
        ("ampere_fp16_sgemm_fp16_128x64_nn", None),
        ("ampere_gcgemm_64x64_nt", None),
        ("sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize128x128x32", None),
        ("void at::native::vectorized_elementwise_kernel<4>()", None),
    ],
)
def test_the_part_that_tells_of_float32_outside_tensor_cores(name: str, expected: str | None):
    assert full_precision(name) == expected
