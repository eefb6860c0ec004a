"""What a study on data that is not there says: what is missing, where it is had, and what it will cost."""

import pytest
from torchvision.models import resnet18

from tests.projects import ROOT
from trueneg.cli.cost import SUSTAINED, _networks, cost_text
from trueneg.cli.main import main
from trueneg.config.reading import read_configuration
from trueneg.config.runs import all_runs


def study_of(name):
    return read_configuration([ROOT / f"config/studies/{name}.yaml"]).studies[name]


def test_a_study_without_its_data_is_told_in_a_few_lines(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["check", str(ROOT / "config/studies/mimic_cxr.yaml")]) == 0
    said = capsys.readouterr().out
    assert len(said.splitlines()) <= 10
    for part in ("mimic-cxr-reports.zip", "mimic-cxr-2.0.0-metadata.csv.gz", "p10 … p19", "MS_CXR_Local_Alignment"):
        (line,) = (line for line in said.splitlines() if part in line)
        assert line.startswith("  MISSING ")
        assert "https://physionet.org/content/" in line
    assert "GPU hours" in said
    assert "GB of disk" in said


@pytest.mark.parametrize("name", ["reco", "flickr30k"])
def test_every_part_of_the_other_papers_data_is_asked_for(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["check", str(ROOT / f"config/studies/{name}.yaml")]) == 0
    said = capsys.readouterr().out
    wanted = {"reco": ("convirt", "chexpert", "mimic-cxr"), "flickr30k": ("dataset_flickr30k.json", "flickr30k-images")}
    assert all(any(part in line for line in said.splitlines() if "MISSING" in line) for part in wanted[name])


def test_operations_are_those_of_a_loop_over_the_layers():
    run = all_runs("mimic_cxr", study_of("mimic_cxr"))[0]
    counted, network, side, expected = _networks(run, channels=1), resnet18(), 480, 0
    sizes = {"conv1": side // 2} | {f"layer{number}": side // 2 ** (number + 1) for number in range(1, 5)}
    for name, module in network.named_modules():
        if hasattr(module, "kernel_size") and hasattr(module, "in_channels"):
            output = sizes[name.split(".")[0]]
            expected += 2 * module.weight.numel() * output**2
    tokens = 2 * 12 * 12 * 768**2 * 32
    assert counted.operations == pytest.approx(expected + tokens, rel=1e-6)
    assert counted.weights == pytest.approx(110e6 + 11.2e6, rel=0.03)


def test_hours_follow_from_the_operations():
    study = study_of("flickr30k")
    runs = [run for run in all_runs("flickr30k", study) if run.objective != "CLIP-ZS"]
    sections = ("dataset", "encoder", "text_encoder", "augmentation")
    operations = {repr([run.settings[name] for name in sections]): run for run in runs}
    operations = {key: _networks(run, 3).operations for key, run in operations.items()}
    each = [operations[repr([run.settings[name] for name in sections])] for run in runs]
    hours = sum(3 * one * 80_000 * 64 for one in each) / SUSTAINED / 3600
    assert f"{len(runs)} runs of " in cost_text("flickr30k", study)
    assert f"about {hours:,.0f} GPU hours" in cost_text("flickr30k", study)


def test_own_data_has_no_cost_that_could_be_known():
    assert cost_text("my_study", read_configuration([ROOT / "config/studies/own_data.yaml"]).studies["my_study"]) is None
