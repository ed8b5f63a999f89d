"""The loop inside a block, a decorated function or another package's trainer."""

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from longpole.capture import lightning_callback, transformers_callback, watch
from longpole.capture.bundle import Manifest, read_manifest
from longpole.capture.errors import CaptureError

pytest.importorskip("torch", reason="torch is needed to record")

FEW: dict[str, Any] = {"steps": 4, "wait": 2, "warmup": 1, "after": 2}
NEEDED = 3 + 2 + 1 + 4 + 2


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def train(turns: int, fail_at: int = -1) -> str:
    import torch

    net = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for turn in range(turns):
        net(torch.randn(2, 4)).sum().backward()
        optimizer.step()
        if turn == fail_at:
            raise ValueError("mine")
    return "trained"


def assert_recorded(manifest: Manifest) -> None:
    assert manifest.complete
    assert (manifest.mode, manifest.options["recorded_steps"]) == ("training", 4)
    assert manifest.program["step_ends_on"].startswith("optimizer ")


def test_a_block(tmp_path: Path):
    with watch(tmp_path / "run", **FEW) as session:
        assert train(NEEDED) == "trained"
    assert session.bundles == [tmp_path / "run"]
    assert_recorded(read_manifest(tmp_path / "run"))
    assert read_manifest(tmp_path / "run").title == "run"


def test_a_decorated_function_returns_what_it_returns(tmp_path: Path):
    assert watch(tmp_path / "run", title="mine", **FEW)(train)(NEEDED) == "trained"
    assert_recorded(read_manifest(tmp_path / "run"))
    assert read_manifest(tmp_path / "run").title == "mine"


def test_an_exception_of_the_block_passes_unchanged_and_what_was_recorded_is_kept(tmp_path: Path):
    with pytest.raises(ValueError, match="mine"), watch(tmp_path / "run", **FEW):
        train(NEEDED, fail_at=3 + 2 + 1 + 2)
    assert not read_manifest(tmp_path / "run").complete


def test_a_block_without_a_loop_is_told_on_stderr_and_loses_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    with watch(tmp_path / "run", **FEW):
        result = train(2)
    assert result == "trained"
    assert capsys.readouterr().err.startswith("longpole: Nothing was recorded: the loop ended after")
    assert not (tmp_path / "run").exists()


def test_a_folder_in_use_is_refused_on_entering(tmp_path: Path):
    (tmp_path / "notes").touch()
    with pytest.raises(CaptureError, match="not empty"), watch(tmp_path, **FEW):
        pytest.fail("entered")


@pytest.mark.skipif(find_spec("transformers") is not None, reason="transformers is installed here")
def test_a_callback_of_a_package_that_is_not_there_says_so(tmp_path: Path):
    with pytest.raises(CaptureError, match="transformers is not installed here"):
        transformers_callback(tmp_path / "run")


@pytest.mark.filterwarnings("default")
def test_the_trainer_of_transformers(tmp_path: Path):
    transformers = pytest.importorskip("transformers", reason="transformers is not installed here")
    import torch

    class Lines(torch.utils.data.Dataset):
        def __len__(self) -> int:
            return 4 * NEEDED

        def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
            return {"input_ids": torch.tensor([index % 7] * 4), "labels": torch.tensor(index % 2)}

    shape = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1, "intermediate_size": 8}
    model = transformers.BertForSequenceClassification(transformers.BertConfig(vocab_size=10, **shape))
    arguments = transformers.TrainingArguments(
        str(tmp_path / "out"), max_steps=NEEDED, per_device_train_batch_size=2, gradient_accumulation_steps=2, report_to=[],
        save_strategy="no", use_cpu=True, disable_tqdm=True,
    )  # fmt: skip
    recording = transformers_callback(tmp_path / "run", **FEW)
    transformers.Trainer(model=model, args=arguments, train_dataset=Lines(), callbacks=[recording]).train()
    assert_recorded(read_manifest(tmp_path / "run"))
    assert read_manifest(tmp_path / "run").samples_per_step == 4


@pytest.mark.filterwarnings("default")
def test_the_trainer_of_lightning(tmp_path: Path):
    lightning = pytest.importorskip("lightning.pytorch", reason="lightning is not installed here")
    import torch

    class Module(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.net = torch.nn.Linear(4, 1)

        def training_step(self, batch: Any, index: int) -> Any:
            return torch.nn.functional.mse_loss(self.net(batch[0]), batch[0][:, :1])

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=0.1)

    data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.randn(2 * NEEDED, 4)), batch_size=2)
    quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False, "enable_model_summary": False}
    recording = lightning_callback(tmp_path / "run", **FEW)
    lightning.Trainer(max_epochs=1, accelerator="cpu", callbacks=[recording], **quiet).fit(Module(), data)
    assert_recorded(read_manifest(tmp_path / "run"))
    assert read_manifest(tmp_path / "run").samples_per_step == 2
