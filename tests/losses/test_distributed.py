"""The loss and gradient of a batch do not depend on the number of processes that share it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.losses.distributed_losses import losses

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("processes", "backend"),
    [
        (1, "gloo"),
        (2, "gloo"),
        pytest.param(4, "gloo", marks=pytest.mark.long),
        pytest.param(
            2,
            "nccl",
            marks=pytest.mark.skipif(
                torch.cuda.device_count() < 2, reason="nccl needs a GPU for each process"
            ),
        ),
    ],
)
def test_the_loss_and_its_gradient_do_not_depend_on_the_number_of_processes(processes, backend):
    finished = subprocess.run(
        [sys.executable, "-m", "tests.losses.distributed_losses", str(processes), backend],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    found = json.loads(finished.stdout)
    expected = {
        name: [
            value.item(),
            *(number for gradient in gradients for number in gradient.flatten().tolist()),
        ]
        for name, value, gradients in losses(slice(None), torch.device("cpu"))
    }
    assert found.keys() == expected.keys()
    for name, numbers in found.items():
        torch.testing.assert_close(
            torch.tensor(numbers), torch.tensor(expected[name]), rtol=1e-6, atol=1e-6, msg=name
        )
        assert any(numbers[1:])
