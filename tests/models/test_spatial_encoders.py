"""Spatial encoders equal torchvision's networks before the pooling; weights load from files or
raise clear errors.
"""

import pytest
import torch
from safetensors.torch import save_file
from torch import nn
from torchvision.models import resnet18, resnet50
from torchvision.models.feature_extraction import create_feature_extractor

from trueneg.errors import UserError
from trueneg.io.reading import reading
from trueneg.models.spatial_encoders import SmallSpatialResNet, SpatialResNet, build_spatial_encoder

NETWORKS = {"resnet18": (resnet18, 512), "resnet50": (resnet50, 2048)}


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("training", [True, False])
def test_feature_maps_match_torchvision(name, training, tmp_path):
    torch.manual_seed(0)
    constructor, dimensions = NETWORKS[name]
    network = constructor()
    save_file(network.state_dict(), tmp_path / "network.safetensors")
    encoder = (
        build_spatial_encoder(name, weights=tmp_path / "network.safetensors")
        .double()
        .train(training)
    )
    reference = create_feature_extractor(network.double().train(training), ["layer4"]).train(
        training
    )
    images = torch.randn(2, 3, 70, 96, dtype=torch.float64)
    found = encoder(images)
    assert found.shape == (2, dimensions, 3, 3)
    assert encoder.dimensions == dimensions
    torch.testing.assert_close(found, reference(images)["layer4"], rtol=1e-9, atol=1e-9)


def test_480_pixels_give_225_regions():
    assert SpatialResNet("resnet18").eval()(torch.zeros(1, 1, 480, 480)).shape == (1, 512, 15, 15)


@pytest.mark.parametrize("name", NETWORKS)
def test_grey_images_are_repeated_to_three_channels(name):
    torch.manual_seed(0)
    encoder = build_spatial_encoder(name).eval()
    grey = torch.randn(1, 1, 64, 64)
    torch.testing.assert_close(encoder(grey), encoder(grey.repeat(1, 3, 1, 1)))


def test_pickled_weights_must_contain_only_tensors(tmp_path):
    torch.manual_seed(0)
    network = resnet18()
    torch.save(network.state_dict(), tmp_path / "network.pth")
    found = SpatialResNet("resnet18", tmp_path / "network.pth").state_dict()
    expected = {
        key: value for key, value in network.state_dict().items() if not key.startswith("fc.")
    }
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[key], expected[key]) for key in expected)
    torch.save(network, tmp_path / "pickled.pth")
    with pytest.raises(UserError, match=r"pickled\.pth: .*a complete state dict"):
        SpatialResNet("resnet18", tmp_path / "pickled.pth")
    torch.save({"model": network.state_dict()}, tmp_path / "nested.pth")
    with pytest.raises(UserError, match=r"nested\.pth: .*a state dict of resnet18 .*Missing key"):
        SpatialResNet("resnet18", tmp_path / "nested.pth")


@pytest.mark.parametrize("suffix", ["safetensors", "pth"])
def test_missing_damaged_or_mismatched_weights_raise_errors(tmp_path, suffix):
    path = tmp_path / f"weights.{suffix}"
    with pytest.raises(UserError, match=r"does not exist; expected a file .*IMAGENET1K_V1"):
        SpatialResNet("resnet18", path)
    state = {"conv1.weight": torch.zeros(3)}
    save_file(state, path) if suffix == "safetensors" else torch.save(state, path)
    with pytest.raises(
        UserError, match=rf"weights.{suffix}: .*a state dict of resnet18 .*Missing key"
    ):
        SpatialResNet("resnet18", path)
    path.write_bytes(path.read_bytes()[:20])
    with pytest.raises(UserError, match="a complete state dict"):
        SpatialResNet("resnet18", path)


def test_failed_downloads_name_the_address(tmp_path, monkeypatch):
    """An empty cache and an unreachable proxy, so downloads fail on every machine."""
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    for name in ("https_proxy", "HTTPS_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(
        UserError, match=r"resnet50 IMAGENET1K_V2: cannot be downloaded from https://.*path"
    ):
        SpatialResNet("resnet50", "IMAGENET1K_V2")


@pytest.mark.parametrize(("side", "grid"), [(64, 8), (112, 14), (90, 12)])
def test_the_small_encoder_keeps_an_eighth_of_the_resolution(side, grid):
    encoder = build_spatial_encoder("small").eval()
    assert encoder.dimensions == 64
    assert encoder(torch.zeros(2, 1, side, side)).shape == (2, 64, grid, grid)


def test_the_small_encoder_has_a_local_receptive_field():
    """A changed pixel affects its region, but none on the other side of the image."""
    torch.manual_seed(0)
    encoder = SmallSpatialResNet().eval()
    image = torch.zeros(1, 1, 112, 112)
    changed = image.clone()
    changed[0, 0, 20, 90] = 1.0
    difference = (encoder(changed) - encoder(image)).abs().amax(1)[0]
    assert difference[20 // 8, 90 // 8] > 0
    assert difference[:, :5].max() == 0
    assert difference[10:].max() == 0


def test_the_small_encoder_uses_he_initialisation():
    torch.manual_seed(0)
    for name, module in SmallSpatialResNet(width=32).named_modules():
        if isinstance(module, nn.Conv2d):
            fan_out = module.out_channels * module.kernel_size[0] * module.kernel_size[1]
            expected, found = (2 / fan_out) ** 0.5, module.weight.std().item()
            assert abs(found / expected - 1) < 5 / module.weight.numel() ** 0.5, name


def test_out_of_memory_is_not_reported_as_damaged_weights():
    with (
        pytest.raises(torch.OutOfMemoryError),
        reading("w.pt", "a state dict", "Get a complete copy."),
    ):
        raise torch.OutOfMemoryError("tried to allocate 2 GiB")
