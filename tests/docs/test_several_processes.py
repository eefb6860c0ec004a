"""docs/losses.md: the script for several processes runs, here on two of a CPU, and does what the
page says.
"""

import pytest
import torch

from tests.docs.followed import run_in, write_files
from tests.docs.pages import ROOT, blocks
from tests.projects import Project
from trueneg.losses import ContrastiveLoss, Debiased

PAGE, SECTION = "docs/losses.md", "Large batches and several processes"


def on_one_process() -> tuple[float, float]:
    """Loss and norm of the gradient of the samples of both processes in one batch."""
    torch.manual_seed(0)
    network = torch.nn.Linear(8, 4)
    views = []
    for rank in range(2):
        torch.manual_seed(rank)
        views.append(torch.randn(32, 8))
    first, second = zip(*(each.chunk(2) for each in views), strict=True)
    loss = ContrastiveLoss(Debiased(0.1), temperature=0.5)(
        network(torch.cat(first)), network(torch.cat(second))
    )
    loss.backward()
    return loss.item(), network.weight.grad.norm().item()


def test_the_script_gives_the_loss_and_the_gradient_of_the_whole_batch(tmp_path):
    project = Project(tmp_path)
    (tmp_path / "src").symlink_to(ROOT / "src")
    write_files(PAGE, project, SECTION)
    (command,) = [
        block.text.split() for block in blocks(ROOT / PAGE, SECTION) if block.language == "bash"
    ]
    said = run_in(project, command)
    found = [
        list(map(float, line.split()))
        for line in said.splitlines()
        if line.count(".") == 2 and line[0].isdigit()
    ]
    assert len(found) == 2, said
    loss, gradient = on_one_process()
    assert sum(value for value, _ in found) / 2 == pytest.approx(loss, abs=2e-6)
    assert [norm for _, norm in found] == pytest.approx([gradient] * 2, abs=2e-6)
