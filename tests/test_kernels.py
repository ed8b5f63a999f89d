import pytest

from longpole.analyze.kernels import SHORT_LENGTH, device_class, short_name


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
        ("ampere_sgemm_128x64_tn", "ampere_sgemm_128x64_tn"),
        ("void flash::kernel(Params)", "flash::kernel"),
        ("Memcpy HtoD (Pageable -> Device)", "Memcpy HtoD (Pageable -> Device)"),
        ("void cutlass::Kernel<cutlass_80_tensorop>(cutlass_80_tensorop::Params)", "cutlass::Kernel<…>"),
        (
            "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, Array<char*, 3> >(int)",
            "at::native::vectorized_elementwise_kernel<…>",
        ),
        (
            "void at::native::elementwise_kernel<128, at::native::BinaryFunctor<float, at::native::MulFunctor<float> > >(int)",
            "at::native::elementwise_kernel<MulFunctor>",
        ),
        ("void at::native::elementwise_kernel<4, at::native::direct_copy_kernel_cuda(at::I&)>()",
         "at::native::elementwise_kernel<direct_copy_kernel_cuda>"),
    ],
)  # fmt: skip
def test_a_short_name_keeps_what_the_kernel_computes(name: str, expected: str):
    assert short_name(name) == expected


def test_a_short_name_fits_a_table_cell():
    assert len(short_name("Cijk_" * 40)) == SHORT_LENGTH
    assert short_name("Cijk_" * 40).endswith("…")
