"""``trueneg check`` on studies whose data are missing: what is missing, where to get it, and an
estimate of the time.
"""

import json

import numpy as np
import pytest
import torch
import yaml
from safetensors.torch import save_file

from tests.config.mistakes import with_key
from tests.data.official_layouts import write_image_table
from tests.projects import ROOT
from tests.studies import tiny_study, tuned_study
from trueneg.cli.estimates import NO_DATA
from trueneg.cli.main import main
from trueneg.config.order import relative_cost
from trueneg.config.reading import read_configuration
from trueneg.config.runs import all_runs
from trueneg.data.images.loading import load_source
from trueneg.data.images.subsets import make_subset
from trueneg.store.winners import selecting


def test_a_study_without_its_data_is_described_in_a_few_lines(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["check", str(ROOT / "config/studies/mimic_cxr.yaml")]) == 0
    output = capsys.readouterr().out
    assert len(output.splitlines()) <= 10
    for part in (
        "mimic-cxr-reports.zip",
        "mimic-cxr-2.0.0-metadata.csv.gz",
        "p10 … p19",
        "MS_CXR_Local_Alignment",
    ):
        (line,) = (line for line in output.splitlines() if part in line)
        assert line.startswith("  MISSING ")
        assert "https://physionet.org/content/" in line
    (line,) = (line for line in output.splitlines() if "data/biovil/image.safetensors" in line)
    assert line.startswith("  MISSING ")
    assert "data/biovil/text.safetensors" in line
    assert f"of unknown duration ({NO_DATA})" in output


@pytest.mark.parametrize("name", ["cifar10", "bcl"])
def test_a_study_of_published_images_without_them_is_described(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["check", str(ROOT / f"config/studies/{name}.yaml")]) == 0
    output = capsys.readouterr().out
    assert output.count("MISSING data/cifar10: found no such folder") == 1
    assert "runs to train" in output


@pytest.mark.parametrize(
    ("changes", "is_current"),
    [({}, True), ({"rule": "another"}, False), ({"k": 5}, False), ({"seeds": [100]}, False)],
)
def test_winners_of_another_rule_or_measurement_are_selected_again(
    changes, is_current, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "study.yaml").write_text(yaml.safe_dump({"tuned": tuned_study()}))
    study = dict(read_configuration(["study.yaml"]).studies)["tuned"]
    decided = selecting(study) | {"seeds": study.tuning.seeds}
    candidates = decided.pop("candidates")
    winners = {
        name: {"variant": variants[0], "candidates": [{"variant": each} for each in variants]}
        for name, texts in candidates.items()
        for variants in [[json.loads(text) for text in texts]]
    }
    decided["measured"] |= {"k": changes.get("k", decided["measured"]["k"])}
    decided |= {key: value for key, value in changes.items() if key != "k"}
    path = tmp_path / "results/tuned/tuning/winners.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(decided | {"winners": {"digits": winners}}))
    assert main(["check", "study.yaml"]) == 0
    assert ("second stage, at most" not in capsys.readouterr().out) == is_current


def test_files_of_released_networks_that_exist_are_read(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for name in ("image", "text"):
        path = tmp_path / f"data/biovil/{name}.safetensors"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    assert main(["check", str(ROOT / "config/studies/mimic_cxr.yaml")]) == 1
    printed = capsys.readouterr()
    assert "biovil" not in printed.out
    assert "data/biovil/image.safetensors: cannot be read" in printed.err


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("reco", ("convirt", "chexpert", "mimic-cxr")),
        ("flickr30k", ("dataset_flickr30k.json", "flickr30k-images")),
    ],
)
def test_each_missing_part_of_the_data_is_listed(name, parts, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["check", str(ROOT / f"config/studies/{name}.yaml")]) == 0
    missing = [line for line in capsys.readouterr().out.splitlines() if "MISSING" in line]
    assert all(any(part in line for line in missing) for part in parts)


def test_missing_features_are_reported(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    guide = {"name": "encoder", "encoder": {"name": "vectors", "path": "features.safetensors"}}
    guided = {"name": "guided", "margin": 0.1, "guide": guide}
    study = tiny_study(objectives=tiny_study()["objectives"] | {"Guided": guided})
    (tmp_path / "study.yaml").write_text(yaml.safe_dump({"tiny": study}))
    assert main(["check", "study.yaml"]) == 1
    assert "features.safetensors: does not exist; expected vectors" in capsys.readouterr().err
    save_file({"images": torch.rand(1797, 2)}, "features.safetensors")
    assert main(["check", "study.yaml"]) == 0
    assert "data changed" not in capsys.readouterr().out


@pytest.mark.parametrize(("group", "exists"), [("7", True), ("macro", True), ("seven", False)])
def test_the_primary_group_is_a_class_of_the_data(group, exists, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "study.yaml").write_text(
        yaml.safe_dump({"tiny": with_key(tiny_study(), "primary.group", group)})
    )
    assert main(["check", "study.yaml"]) == 1 - exists
    error = capsys.readouterr().err
    assert exists == (error == "")
    assert exists or all(fact in error for fact in ("primary.group is 'seven'", "macro", "0, 1, 2"))


@pytest.mark.parametrize("rare", [[5, 6, 7, 8, 9], []])
def test_false_negatives_and_ineffective_objectives_are_shown(tmp_path, monkeypatch, capsys, rare):
    monkeypatch.chdir(tmp_path)
    data = tiny_study()["dataset"] | {"rare_classes": rare, "fraction": 0.25 if rare else 1.0}
    weak = {"name": "dcl", "class_probability": 2e-5}
    study = tiny_study(dataset=data, objectives=tiny_study()["objectives"] | {"Weak": weak})
    (tmp_path / "study.yaml").write_text(yaml.safe_dump({"tiny": study}))
    assert main(["check", "study.yaml"]) == 0
    output = capsys.readouterr().out
    subset = make_subset(load_source("digits"), seed=0, **data_settings(data))
    labels = load_source("digits").labels[subset.train]
    shares = np.bincount(labels) / len(labels)
    false = (
        126 * ((labels[:, None] == labels).sum() - len(labels)) / (len(labels) * (len(labels) - 1))
    )
    expected = (
        f"of an anchor's 126 negatives, about {false:.3g} ({100 * false / 126:.2g} %) share its"
        " class"
    )
    assert f"  digits: {expected}\n" in output
    assert (
        f"  digits, DCL-true: η is {shares.min():.2g} to {shares.max():.2g}, on average" in output
    )
    assert "rare" not in output
    (warning,) = (line for line in output.splitlines() if "numerically" in line)
    assert warning.startswith("  WARNING digits: Weak is numerically uncorrected: ")
    assert warning.endswith(expected)


def data_settings(dataset):
    return {key: value for key, value in dataset.items() if key != "source"}


@pytest.mark.parametrize("skipping", [True, False])
@pytest.mark.parametrize("contradictory", [True, False])
def test_incomplete_rows_of_a_table_may_be_skipped_but_contradictory_ones_are_refused(
    tmp_path, monkeypatch, capsys, skipping, contradictory
):
    monkeypatch.chdir(tmp_path)
    write_image_table(tmp_path / "images", tmp_path / "table.csv")
    with (tmp_path / "table.csv").open("a") as table:
        table.write(
            "0/0.png,Another text.,another patient,0,1\n"
            if contradictory
            else "none.png,A mass.,1,1,\n,A mass.,1,1,\n"
        )
    reports = {
        "source": "image_table",
        "path": "images",
        "table": "table.csv",
        "skip_incomplete": skipping,
    }
    reports |= {"patient_column": "patient"} if contradictory else {}
    texts = {
        "kind": "likelihood",
        "title": "Texts",
        "reports": reports,
        "language_models": {"BERT": {}},
    }
    (tmp_path / "study.yaml").write_text(yaml.safe_dump({"words": texts}))
    code, output = main(["check", "study.yaml"]), capsys.readouterr()
    assert code == (0 if skipping and not contradictory else 1)
    if contradictory:
        assert "line 82: patient differs" in output.err
    elif skipping:
        (line,) = [line for line in output.out.splitlines() if "skipped" in line]
        assert all(fact in line for fact in ("2 of ", "1 without an image", "1 whose image"))
    else:
        assert all(fact in output.err for fact in ("table.csv", "none.png", "image"))


def test_unknown_published_numbers_are_refused_before_training(tmp_path, capsys):
    study = tiny_study(
        published=[{"paper": "bayesian-contrastive-learning", "tables": ["Table 9"]}]
    )
    (tmp_path / "study.yaml").write_text(yaml.safe_dump({"tiny": study}))
    assert main(["check", str(tmp_path / "study.yaml"), "--results", str(tmp_path)]) == 1
    assert (
        "no row for bayesian-contrastive-learning has the table 'Table 9'"
        in capsys.readouterr().err
    )


def test_views_smaller_than_the_images_cost_what_their_pixels_cost():
    run = all_runs(
        "bcl_stl10", read_configuration([ROOT / "config/studies/bcl.yaml"]).studies["bcl_stl10"]
    )[0]
    full, cropped = (
        {**run.settings, "augmentation": {**run.settings["augmentation"], "size": side}}
        for side in (None, 32)
    )
    assert relative_cost(full) == pytest.approx((96 / 32) ** 2 * relative_cost(cropped))


def test_the_cost_model_counts_the_operations_of_the_networks():
    """Against a loop over the layers: two operations for each weight and output pixel, forward."""
    from torchvision.models import resnet18

    run = all_runs(
        "mimic_cxr",
        read_configuration([ROOT / "config/studies/mimic_cxr.yaml"]).studies["mimic_cxr"],
    )[0]
    settings = {
        **run.settings,
        "training": {**run.settings["training"], "updates": 1, "batch_size": 1},
    }
    side, expected = settings["dataset"]["resolution"], 2 * 12 * 12 * 768**2 * 32
    sizes = {"conv1": side // 2} | {
        f"layer{number}": side // 2 ** (number + 1) for number in range(1, 5)
    }
    for name, module in resnet18().named_modules():
        if hasattr(module, "kernel_size") and hasattr(module, "in_channels"):
            expected += 2 * module.weight.numel() * sizes[name.split(".")[0]] ** 2
    assert 1e9 * relative_cost(settings) == pytest.approx(expected, rel=0.05)
