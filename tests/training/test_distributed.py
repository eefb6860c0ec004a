"""Several processes give the result of one for every objective, and failures of a process end the
job.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest
import torch
from safetensors.torch import load_file
from timm.layers import BatchNormAct2d
from timm.layers.split_batchnorm import SplitBatchNorm2d

from tests.training.distributed_training import trained
from tests.training.interrupted import CONTEXT, new_job
from trueneg.errors import UserError
from trueneg.runtime import distributed
from trueneg.store.run_store import RunStore
from trueneg.training.engine import train_runs

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def of_two():
    """Results of each run on two processes."""
    command = [sys.executable, "-m", "tests.training.distributed_training", "2"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_two_processes_give_the_result_of_one(of_two):
    """Also with batch normalisation, measured schedules, labels, guides and soft targets: each
    update's gradient is that of the whole batch.
    """
    found = dict(of_two)
    for name, rows, gradients, weights in trained():
        own = found.pop(name)
        assert own["same"], name  # on both processes
        distance = (torch.tensor(own["gradients"]) - gradients).norm() / gradients.norm()
        assert distance < 1e-5, name
        torch.testing.assert_close(
            torch.tensor(own["rows"]), torch.tensor(rows), rtol=1e-3, atol=1e-6, msg=name
        )
        # AdamW's steps make much of rounding, on text encoders always, elsewhere where a unit is at
        # its kink.
        if name in ("DCL-true", "scheduled"):
            torch.testing.assert_close(
                torch.tensor(own["weights"]), weights, rtol=1e-5, atol=1e-5, msg=name
            )
    assert not found


def work_on_norms(rank, folder):
    """Return outputs, gradients and running statistics of this process's half of a batch, in
    float64.
    """
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=2
    )
    processes = distributed.Processes(rank, 2)
    network, batch = norms_and_batch()
    distributed.synchronise_norms(network)
    own = processes.part(batch).requires_grad_()
    whole = processes.whole(network(own))
    whole.square().mul(torch.arange(whole.numel()).view_as(whole)).sum().backward()
    processes.average_gradients(network.parameters())
    found = [
        whole.detach(),
        *(parameter.grad for parameter in network.parameters()),
        *network.buffers(),
    ]
    if rank == 0:
        torch.save([value.double() for value in found], f"{folder}/found.pt")
    torch.distributed.destroy_process_group()


def norms_and_batch():
    torch.manual_seed(0)
    network = torch.nn.Sequential(
        torch.nn.Conv2d(3, 4, 3),
        torch.nn.BatchNorm2d(4),
        BatchNormAct2d(4),
        torch.nn.Flatten(),
        torch.nn.LazyBatchNorm1d(),
    ).double()  # before the first batch, whose rounding in float32 depends on the threads
    network(torch.randn(4, 3, 5, 5, dtype=torch.float64))
    return network, 5 + torch.randn(8, 3, 5, 5, dtype=torch.float64)


def test_batch_normalisation_of_two_processes_is_that_of_the_whole_batch(tmp_path):
    # Not forked from here: other tests of this process may have started threads of autograd.
    children = [CONTEXT.Process(target=work_on_norms, args=(rank, tmp_path)) for rank in range(2)]
    for child in children:
        child.start()
    for child in children:
        child.join(400)
        assert child.exitcode == 0
    network, batch = norms_and_batch()
    whole = network(batch)
    whole.square().mul(torch.arange(whole.numel()).view_as(whole)).sum().backward()
    expected = [
        whole.detach(),
        *(parameter.grad for parameter in network.parameters()),
        *network.buffers(),
    ]
    found = torch.load(tmp_path / "found.pt", weights_only=True)
    assert len(found) == len(expected)
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs.double(), rtol=1e-9, atol=1e-9)


def test_a_batch_normalisation_that_cannot_be_synchronised_is_refused():
    network = torch.nn.Sequential(SplitBatchNorm2d(4))
    with pytest.raises(UserError, match=r"SplitBatchNorm2d.*set training\.devices to 1"):
        distributed.synchronise_norms(network)


@pytest.mark.long
def test_a_job_on_two_devices_ends_with_the_model_of_one(tmp_path):
    alone, shared = new_job(tmp_path / "alone").finish(), new_job(tmp_path / "shared", devices=2)
    train_runs(**shared.arguments())
    assert shared.run.name == alone.run.name
    assert shared.record["devices"] == 2
    assert [attempt["devices"] for attempt in shared.record["attempts"]] == [2]
    expected = load_file(alone.run / RunStore.MODEL)
    for name, value in load_file(shared.run / RunStore.MODEL).items():
        torch.testing.assert_close(value, expected[name], rtol=1e-4, atol=1e-4, msg=name)
    assert {path.name for path in shared.run.iterdir()} == {
        path.name for path in alone.run.iterdir()
    }


LONG = {"epochs": 10_000, "devices": 2}


def when_it_has_a_checkpoint(job, act):
    """Call a function from another thread when the job in this thread has written its first
    checkpoint.
    """

    def wait_and_act():
        deadline = time.monotonic() + 200
        while (
            not list(job.store.path.glob(f"*/{RunStore.CHECKPOINT}"))
            and time.monotonic() < deadline
        ):
            time.sleep(0.05)
        act(
            [
                child
                for child in psutil.Process().children()
                if "spawn_main" in " ".join(child.cmdline())
            ]
        )

    thread = threading.Thread(target=wait_and_act)
    thread.start()
    return thread


def gone(processes, within=30):
    _, alive = psutil.wait_procs(processes, timeout=within)
    return not alive


@pytest.mark.long
def test_a_killed_worker_ends_the_job_with_an_error_and_the_next_job_resumes(tmp_path):
    job = new_job(tmp_path, **LONG)
    seen = []

    def kill(workers):
        seen.extend(workers)
        workers[1].kill()

    thread = when_it_has_a_checkpoint(job, kill)
    with pytest.raises(UserError, match="worker 2/2 of this training job was killed by SIGKILL"):
        train_runs(**job.arguments())
    thread.join()
    assert gone(seen)
    progress = job.store.progress(job.run.name)
    assert progress["spent"][0]["devices"] == 2
    assert job.store.owner(job.run.name) is None


@pytest.mark.long
def test_a_stopped_worker_ends_the_job_instead_of_blocking_it(tmp_path, monkeypatch):
    monkeypatch.setattr(distributed.run_distributed, "__defaults__", (30.0,))
    job = new_job(tmp_path, **LONG)
    seen = []

    def stop(workers):
        seen.extend(workers)
        workers[0].suspend()

    thread = when_it_has_a_checkpoint(job, stop)
    with pytest.raises(RuntimeError, match="worker 2/2 failed"):
        train_runs(**job.arguments())
    thread.join()
    assert gone(seen)


@pytest.mark.long
def test_workers_end_with_a_killed_job_and_the_next_job_resumes(tmp_path):
    reference = new_job(tmp_path / "reference", epochs=3, devices=2)
    train_runs(**reference.arguments())
    job = new_job(tmp_path / "killed", epochs=3, devices=2)
    process = job.start()
    while not list(job.store.path.glob(f"*/{RunStore.CHECKPOINT}")):
        assert process.is_alive()
        time.sleep(0.02)
    workers = psutil.Process(process.pid).children()
    assert len(workers) >= 2
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    assert gone(workers)
    train_runs(**job.arguments())
    assert job.model == reference.model
    assert len(job.record["attempts"]) == 2


@pytest.mark.long
def test_a_user_error_of_a_worker_is_raised_by_the_job(tmp_path):
    job = new_job(tmp_path, devices=2, learning_rate=1e30, schedule="constant")
    with pytest.raises(UserError, match=r"The loss became nan in epoch 1|the weights contain NaN"):
        train_runs(**job.arguments())
