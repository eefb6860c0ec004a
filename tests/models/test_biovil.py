"""BioViL's files are converted without running code and load into equal networks; errors name wrong
tensors.
"""

import re

import pytest
import torch
from safetensors.torch import load_file, save_file
from tests import biovil as official
from tests.text import models

from trueneg.cli.main import main
from trueneg.errors import UserError
from trueneg.models.biovil import load_image_model, load_text_projection
from trueneg.models.weights import convert

HIDDEN = 16


@pytest.fixture(scope="module")
def bert():
    return models.bert(50, hidden=HIDDEN)


@pytest.fixture(scope="module")
def pickles(bert, tmp_path_factory):
    return official.write_pickles(tmp_path_factory.mktemp("hub"), bert)


@pytest.fixture(scope="module")
def files(pickles, tmp_path_factory):
    folder = tmp_path_factory.mktemp("converted")
    for name, path in pickles.items():
        assert main(["convert", str(path), str(folder / f"{name}.safetensors")]) == 0
    return folder


@pytest.mark.parametrize("name", ["image", "text"])
def test_conversion_keeps_every_tensor(name, pickles, files):
    expected, found = (
        torch.load(pickles[name], weights_only=True),
        load_file(files / f"{name}.safetensors"),
    )
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[key], expected[key]) for key in expected)


def test_the_image_model_equals_hi_mls(files):
    encoder, projection = load_image_model(files / "image.safetensors")
    pixels = torch.rand(2, 1, 64, 96, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        pooled, patches = official.official_image_model()(pixels.expand(-1, 3, -1, -1))
        found = projection(encoder(pixels), regions=True)
    assert patches.shape == (2, official.DIMENSIONS, 2, 3)
    torch.testing.assert_close(found.pooled, pooled)
    torch.testing.assert_close(found.regions, patches)


def test_the_text_projection_equals_cxr_berts(files, pickles):
    vectors = torch.randn(3, HIDDEN, generator=torch.Generator().manual_seed(1))
    expected = official.official_text_embedding(
        vectors, torch.load(pickles["text"], weights_only=True)
    )
    torch.testing.assert_close(
        load_text_projection(files / "text.safetensors", HIDDEN)(vectors), expected
    )


@pytest.mark.parametrize(
    ("change", "facts"),
    [
        (
            lambda state: state.pop("projector.model.3.bias"),
            ["projector.model.3.bias"],
        ),
        (
            lambda state: state.update({"encoder.vit_pooler.x": torch.zeros(1)}),
            ["encoder.vit_pooler.x"],
        ),
        (
            lambda state: state.update({"encoder.encoder.conv1.weight": torch.zeros(64, 1, 7, 7)}),
            ["encoder.encoder.conv1.weight", "[64, 1, 7, 7]", "[64, 3, 7, 7]"],
        ),
        (lambda state: state.clear(), ["encoder.encoder.conv1.weight"]),
    ],
    ids=["missing", "unknown", "other shape", "other file"],
)
def test_an_image_model_with_other_tensors_is_refused_by_name(change, facts, tmp_path):
    state = official.official_image_model().state_dict()
    change(state)
    state["encoder.encoder.fc.weight"] = torch.zeros(2)  # torchvision's classifier is never used
    save_file(state, tmp_path / "image.safetensors")
    with pytest.raises(UserError) as refused:
        load_image_model(tmp_path / "image.safetensors")
    assert str(tmp_path / "image.safetensors") in str(refused.value)
    assert all(fact in str(refused.value) for fact in facts)


def test_a_projection_of_another_text_model_is_refused(files, tmp_path):
    with pytest.raises(UserError, match=r"dense_to_hidden\.weight.*\[12, 16\].*\[12, 24\]"):
        load_text_projection(files / "text.safetensors", 24)
    save_file({"bert.x": torch.zeros(1)}, tmp_path / "bert.safetensors")
    with pytest.raises(UserError, match=r"bert\.safetensors.*cls_projection_head\."):
        load_text_projection(tmp_path / "bert.safetensors", HIDDEN)


def test_conversion_reads_checkpoints_and_runs_no_code(tmp_path, capsys):
    layer = torch.nn.Linear(2, 3)
    torch.save({"epoch": 3, "state_dict": layer.state_dict()}, tmp_path / "checkpoint.pt")
    assert convert(tmp_path / "checkpoint.pt", tmp_path / "layer.safetensors") == 2
    assert load_file(tmp_path / "layer.safetensors").keys() == {"weight", "bias"}
    torch.save(layer, tmp_path / "module.pt")
    torch.save({"epoch": 3, "model": layer.state_dict()}, tmp_path / "other.pt")
    for source, target, facts in (
        ("module.pt", "new.safetensors", r"module\.pt: .*a complete state dict"),
        (
            "other.pt",
            "new.safetensors",
            r"other\.pt: expected a state dict, but some entries .* \(epoch, model",
        ),
        ("nowhere.pt", "new.safetensors", r"nowhere\.pt: does not exist"),
        ("checkpoint.pt", "layer.safetensors", r"layer\.safetensors: already exists"),
        ("checkpoint.pt", "layer.pt", r"layer\.pt: .*\.safetensors"),
    ):
        assert main(["convert", str(tmp_path / source), str(tmp_path / target)]) == 1
        assert re.search(facts, capsys.readouterr().err), source
    assert not (tmp_path / "new.safetensors").exists()
