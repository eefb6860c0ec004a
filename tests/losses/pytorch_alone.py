"""What ``pip install trueneg`` gives: PyTorch, in the oldest supported version, and nothing else.

Run by ``make test-alone``, in an environment of its own.
"""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from trueneg.class_probability import from_class_frequency, from_log_likelihood
from trueneg.losses import ContrastiveLoss, Debiased

BIN = Path(sys.executable).parent


@pytest.mark.parametrize("name", ["numpy", "pandas", "scipy", "pydantic", "yaml", "hypothesis"])
def test_what_the_losses_do_not_need_is_not_installed(name):
    assert importlib.util.find_spec(name) is None


def test_the_version_of_pytorch_is_the_oldest_supported():
    pinned = (Path(__file__).parents[1] / "oldest.txt").read_text(encoding="utf-8")
    (oldest,) = re.findall(r"^torch==(.+)$", pinned, re.M)
    assert torch.__version__.partition("+")[0] == oldest


def test_class_probabilities_of_tensors_correct_a_loss():
    of_labels = from_class_frequency(torch.tensor([0, 0, -1, 1]))
    assert of_labels.tolist() == pytest.approx([2 / 3, 2 / 3, 5 / 9, 1 / 3])
    of_texts = from_log_likelihood(torch.tensor([0.0, -1.0, -2.0, -3.0]))
    assert of_texts.tolist() == pytest.approx([0.2, 0.141, 0.099, 0.07], abs=5e-4)
    views = torch.eye(4, requires_grad=True), torch.eye(4).roll(1, 0)
    corrected, other = (
        ContrastiveLoss(Debiased(), 0.5)(*views, class_probability=each)
        for each in (of_labels, of_texts)
    )
    assert not torch.isclose(corrected, other)
    (gradient,) = torch.autograd.grad(corrected, views[0])
    assert gradient.isfinite().all()
    assert gradient.any()


def test_class_probabilities_of_numbers_say_what_is_missing():
    with pytest.raises(ModuleNotFoundError, match=r"numpy is missing.*pip install numpy"):
        from_log_likelihood(-1.0)


@pytest.mark.parametrize("arguments", [[], ["--help"], ["check"]], ids=" ".join)
@pytest.mark.parametrize("command", [[BIN / "trueneg"], [sys.executable, "-m", "trueneg"]])
def test_the_command_says_what_is_missing(command, arguments):
    finished = subprocess.run(
        [*command, *arguments], capture_output=True, text=True, timeout=100, check=False
    )
    assert finished.returncode == 1
    assert not finished.stdout
    (said,) = finished.stderr.splitlines()
    assert re.search("^trueneg: the module .+ is missing, .+ pip install", said)
