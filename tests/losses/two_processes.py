"""Run the losses on two processes, which are forked after torch is imported, and print what each of
them found, as JSON: states of losses that remember samples, and columns of a queue.

Run as ``python -m tests.losses.two_processes``.
"""

import copy
import functools
import json
import os
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path

import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel

from trueneg.losses import (
    ContrastiveLoss,
    CrossModalLoss,
    Debiased,
    GlobalMass,
    LearnedThresholds,
    SupConLoss,
)

COUNT, SAMPLES = 8, 12
# numbers of the samples of three batches; a number twice in one half, and in both halves
BATCHES = torch.tensor(
    [[0, 1, 2, 3, 4, 5, 6, 7], [2, 2, 9, 0, 7, 1, 4, 11], [5, 3, 8, 1, 5, 0, 10, 2]]
)
REMEMBERING = {
    "averages": lambda directions: GlobalMass(SAMPLES, 0.3),
    "thresholds": lambda directions: LearnedThresholds(
        SAMPLES, 0.2, learning_rate=0.3, directions=directions
    ),
}


def draws(*shape, seed):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


class Trained(nn.Module):
    """A network and its loss in one module."""

    def __init__(self, loss):
        super().__init__()
        torch.manual_seed(3)
        self.encoder = nn.Linear(5, 4).double()
        self.loss = loss

    def forward(self, first, second, index):
        return self.loss(self.encoder(first), self.encoder(second), index=index)


def training(name, share, wrapped, chunk_size=None):
    """Return the parameters and the state after training on the batches."""
    several = distributed.is_initialized()
    loss = ContrastiveLoss(
        REMEMBERING[name](1), 0.4, gather_distributed=several, chunk_size=chunk_size
    )
    model = Trained(loss.double())
    module = model
    if several and wrapped:
        module = DistributedDataParallel(model)
    elif several:
        model.encoder = DistributedDataParallel(model.encoder)
    optimizer = torch.optim.SGD(model.encoder.parameters(), 0.5)
    for number, index in enumerate(BATCHES):
        first, second = draws(2, COUNT, 5, seed=number)
        optimizer.zero_grad()
        module(first[share], second[share], index[share]).backward()
        optimizer.step()
    network = model.encoder.module if isinstance(model.encoder, DistributedDataParallel) else None
    parameters = [each.flatten() for each in (network or model.encoder).parameters()]
    return [*torch.cat(parameters).tolist(), *state_of(loss)]


def state_of(loss):
    """Return the state as numbers, with −99 where a sample has none yet."""
    values = torch.cat([each.flatten() for each in loss.state_dict().values()])
    return values.nan_to_num(neginf=-99.0).tolist()


def without_gathering(name, shares):
    """Return the state after calls with parts of a batch, whose samples are no negatives of each
    other.
    """
    loss = ContrastiveLoss(REMEMBERING[name](1), 0.4).double()
    for share in shares:
        loss(*draws(2, COUNT, 4, seed=9)[:, share], index=torch.arange(COUNT)[share])
    return state_of(loss)


def queues(share):
    """Return values, gradients and numbers of columns of losses with a queue and hard negatives."""
    several = distributed.is_initialized()
    processes = distributed.get_world_size() if several else 1
    queue, past = draws(6, 4, seed=20), draws(3, 4, seed=21)
    hard = draws(COUNT, 2, 4, seed=22)[share]
    found = {}
    for chunk_size in (None, 3):
        options = {"gather_distributed": several, "chunk_size": chunk_size}
        views = draws(2, COUNT, 4, seed=23)[:, share].requires_grad_()
        two = ContrastiveLoss(Debiased(0.1), 0.4, **options)
        pairs = CrossModalLoss(Debiased(0.1), "both", **options)
        classes = torch.arange(COUNT)[share] % 3
        further = torch.full((len(hard) * 2,), -1)
        labels = torch.cat((classes, further, torch.tensor([0, 1, 2, -1, 0, 1])))
        terms = {
            "views": two.terms(*views, queue=queue),
            "views and hard": two.terms(*views, queue=queue, hard_negatives=hard),
            "pairs": pairs.of_features(*views, 0.7, queue=(queue, past), hard_negatives=hard),
            "supcon": SupConLoss(0.4, **options).terms(
                *views, labels=labels, queue=queue, hard_negatives=hard
            ),
        }
        for name, each in terms.items():
            gradient = torch.autograd.grad(each.loss, views)[0]
            mean = each.loss.detach().clone()
            if several:
                distributed.all_reduce(mean)
                parts = [torch.empty_like(gradient) for _ in range(processes)]
                distributed.all_gather(parts, gradient.contiguous())
                gradient = torch.cat(parts, dim=1)
            columns = [matrix.shape[1] for matrix in each.logits]
            values = [mean.item() / processes, *(gradient / processes).flatten().tolist()]
            found[f"{name}, {chunk_size}"] = {"values": values, "columns": columns}
    return found


def everything(share):
    """Return what is found with a share of each batch."""
    found = {"queues": queues(share)}
    for name in REMEMBERING:
        for wrapped in (False, True):
            for size in (None, 3):
                key = f"{name}, {'inside' if wrapped else 'outside'}, {size}"
                found[key] = training(name, share, wrapped, size)
    return found


def work(rank, folder):
    distributed.init_process_group(
        "gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=2
    )
    share = slice(rank * COUNT // 2, (rank + 1) * COUNT // 2)
    found = everything(share)
    for name in REMEMBERING:
        found[f"{name}, alone"] = without_gathering(name, [share])
    (Path(folder) / f"{rank}.json").write_text(json.dumps(found))
    distributed.destroy_process_group()


@functools.cache
def results():
    """Return what two processes found, and what one process finds with whole batches."""
    finished = subprocess.run(
        [sys.executable, "-m", "tests.losses.two_processes"],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    alone = everything(slice(None))
    halves = slice(0, COUNT // 2), slice(COUNT // 2, COUNT)
    for name in REMEMBERING:
        alone[f"{name}, alone"] = without_gathering(name, halves)
    return json.loads(finished.stdout), copy.deepcopy(alone)


def main():
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        children = []
        for rank in range(2):
            child = os.fork()
            if child == 0:
                status = 1
                try:
                    work(rank, folder)
                    status = 0
                except BaseException:
                    traceback.print_exc()
                finally:
                    sys.stderr.flush()
                    os._exit(status)
            children.append(child)
        if sum(os.waitpid(child, 0)[1] for child in children):
            sys.exit(1)
        print(
            json.dumps([json.loads((Path(folder) / f"{rank}.json").read_text()) for rank in (0, 1)])
        )


if __name__ == "__main__":
    main()
