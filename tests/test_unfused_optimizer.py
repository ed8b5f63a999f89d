from make_trace import annotation, backward, kernel, launch, make_trace, op, step

from longpole.analyze.advice.unfused_optimizer import unfused_optimizer


def test_many_small_kernels_of_an_update_become_a_few():
    (found,) = unfused_optimizer(make_trace(*update("SGD", ["aten::add_"] * 40)))
    assert (found.id, found.changes) == ("unfused_optimizer", ("op:Optimizer.step#SGD.step x0",))
    assert {e.name: e.value for e in found.evidence} == {"launched_count": 40, "host_ns": 400_000, "device_ns": 80_000}
    assert "fused=True" in found.advice.template


def test_an_optimizer_without_a_fused_form_gets_foreach():
    (found,) = unfused_optimizer(make_trace(*update("RMSprop", ["aten::add_"] * 40)))
    assert "foreach=True" in found.advice.template


def test_a_users_own_optimizer_is_told_how_to_do_it():
    (found,) = unfused_optimizer(make_trace(*update("Mine", ["aten::add_"] * 40)))
    assert "torch._foreach_" in found.advice.template


def test_long_kernels_and_few_kernels_stay():
    assert not list(unfused_optimizer(make_trace(*update("SGD", ["aten::add_"] * 40, kernel_us=25))))
    assert not list(unfused_optimizer(make_trace(*update("SGD", ["aten::add_"] * 19))))


def test_an_update_that_takes_long_for_other_reasons_is_left_alone():
    calls, work = update("SGD", ["aten::add_"] * 40)
    assert not list(unfused_optimizer(make_trace([*calls, annotation("Optimizer.step#SGD.step", 0, 40 * 101)], work)))


def test_counters_of_steps_on_the_host_launch_nothing():
    calls, work = update("FusedAdam", ["aten::add_"] * 40)
    assert not list(unfused_optimizer(make_trace([call for call in calls if call["cat"] != "cuda_runtime"], work[:1])))


def test_foreach_passes_over_the_parameters_once_for_each_operator():
    ops = ["aten::_foreach_lerp_", "aten::_foreach_mul_", "aten::_foreach_addcmul_", "aten::_foreach_addcdiv_"]
    (found,) = unfused_optimizer(make_trace(*update("AdamW", ops, kernel_us=100)))
    assert (found.expected_share, found.changes) == (0.6, ("op:Optimizer.step#AdamW.step x0",))
    assert found.advice.template.startswith("Construct AdamW with fused=True")


def test_a_fused_update_and_one_of_a_single_pass_are_as_good_as_can_be():
    for ops in (["aten::_fused_adamw_"], ["aten::_foreach_add_", "aten::_fused_adamw_", "aten::_foreach_sub_"]):
        assert not list(unfused_optimizer(make_trace(*update("AdamW", ops, kernel_us=400))))
    assert not list(unfused_optimizer(make_trace(*update("SGD", ["aten::_foreach_add_"], kernel_us=400))))


def test_optimizers_of_others_have_no_fused_form():
    ops = ["aten::_foreach_mul_", "aten::_foreach_add_"]
    assert not list(unfused_optimizer(make_trace(*update("Shampoo", ops, kernel_us=100))))


def test_a_small_part_of_the_recording_is_not_worth_a_change():
    calls, work = update("SGD", ["aten::add_"] * 40)
    assert not list(unfused_optimizer(make_trace([*calls, op("aten::mm", 1000, 50_000)], work)))


def test_a_closure_runs_the_whole_step_inside():
    calls, work = update("SGD", ["aten::add_"] * 40)
    assert not list(unfused_optimizer(make_trace([*calls, backward("AddBackward", 1, 2)], work)))


def test_without_a_gpu_there_is_nothing_to_say():
    assert not list(unfused_optimizer(make_trace([step(1, 0, 100), annotation("Optimizer.step#SGD.step", 0, 90)])))


def update(kind, ops, kernel_us=2):
    """A step of 1 ms with an update of 10 µs for each operator, which launches one kernel."""
    calls, work = [step(1, 0, 1000), annotation(f"Optimizer.step#{kind}.step", 0, 10 * len(ops))], []
    for number, name in enumerate(ops):
        start = 10 * number
        calls += [op(name, start + 1, start + 9, **{"External id": number + 1}), launch(number + 1, start + 2, start + 6)]
        begun = start + 7 if kernel_us < 9 else 500 + kernel_us * number
        work.append(kernel("k", begun, begun + kernel_us, correlation=number + 1, **{"External id": number + 1}))
    return calls, work


def test_adagrad_has_a_fused_form_in_new_versions():
    ops = ["aten::_foreach_addcmul_", "aten::_foreach_sqrt", "aten::_foreach_add_", "aten::_foreach_addcdiv_"]
    (found,) = unfused_optimizer(make_trace(*update("Adagrad", ops, kernel_us=100)))
    assert found.expected_share == 0.5
    assert "2.13 has it on GPUs" in found.advice.template
