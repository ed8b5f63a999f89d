"""Training with a DataLoader, a scheduler and an evaluation after each epoch, as most scripts are."""

import argparse
import time

import torch
from stopwatch import ASLEEP_S, Stopwatch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Pictures(Dataset):
    def __init__(self, count: int) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        if index % 8 == 0:
            time.sleep(2 * ASLEEP_S)  # once a batch
        return torch.full((1, 8, 8), float(index % 4)), index % 4


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten())
        self.head = nn.Linear(4 * 6 * 6, 4)

    def forward(self, pictures: torch.Tensor) -> torch.Tensor:
        time.sleep(ASLEEP_S)
        return self.head(self.features(pictures))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=3)
    epochs = parser.parse_args().epochs
    torch.set_num_threads(1)
    torch.manual_seed(0)
    net, criterion, watch = Net(), nn.CrossEntropyLoss(), Stopwatch()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.9)
    training, held_out = DataLoader(Pictures(8 * 14), batch_size=8), DataLoader(Pictures(16), batch_size=8)
    for epoch in range(epochs):
        net.train()
        batches = iter(training)
        for _ in range(len(training)):
            with watch("data_loading"):
                pictures, labels = next(batches)
            optimizer.zero_grad()
            with watch("forward"):
                scores = net(pictures)
            with watch("loss"):
                loss = criterion(scores, labels)
            with watch("backward"):
                loss.backward()
            with watch("optimizer"):
                optimizer.step()
            watch.step()
        scheduler.step()
        net.eval()
        with torch.no_grad():
            right = sum(int((net(pictures).argmax(1) == labels).sum()) for pictures, labels in held_out)
        print(f"epoch {epoch}: {right} of 16 right")
    watch.tell()


if __name__ == "__main__":
    main()
