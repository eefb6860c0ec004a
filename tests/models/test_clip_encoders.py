"""The parts of CLIP match open_clip's model for images, texts, regions and tokens."""

import json
import sys
from types import SimpleNamespace

import pytest
import torch
from tests.clips import clip_config, tiny_clip, write_clip
from torch.nn import functional
from torchvision.transforms.v2 import InterpolationMode
from torchvision.transforms.v2.functional import resize

from trueneg.errors import UserError
from trueneg.models.clip_encoders import clip_of, clip_tokenizer, load_clip
from trueneg.models.image_text import ImageTextModel
from trueneg.models.region_similarity import RegionSimilarity
from trueneg.models.text_encoders import tokenise
from trueneg.training.guides.ema import EmaGuide

open_clip = pytest.importorskip("open_clip", reason="compares with open_clip's own model (the extra clip)")

TEXTS = [
    "No pleural effusion, 3.5 cm opacity in the left-lower lobe.",
    "Heart size is Normal; ___ can't be excluded.",
    "Clear.",
    " Two  spaces, 12:30, A&B, É. ",
]


@pytest.fixture(scope="module")
def network():
    return tiny_clip()


@pytest.fixture(scope="module")
def files(network, tmp_path_factory):
    return write_clip(tmp_path_factory.mktemp("clip"), network)


@pytest.fixture(scope="module")
def model(files):
    clip = load_clip(**files)
    parts = clip.image_encoder, clip.text_encoder, RegionSimilarity("global")
    return ImageTextModel(*parts, projection=(clip.image_projection, clip.text_projection)).eval()


def normalised(images, mean=open_clip.OPENAI_DATASET_MEAN, std=open_clip.OPENAI_DATASET_STD):
    return (images - torch.tensor(mean).view(3, 1, 1)) / torch.tensor(std).view(3, 1, 1)


@torch.no_grad()
def test_image_embeddings_match_open_clip(model, network):
    images = torch.rand(3, 3, 64, 64, generator=torch.Generator().manual_seed(0))
    found = model.embed_images(images)
    torch.testing.assert_close(found.pooled, network.encode_image(normalised(images)), atol=1e-5, rtol=1e-5)
    assert found.regions is None
    grey = images[:, :1]
    torch.testing.assert_close(
        model.embed_images(grey).pooled, network.encode_image(normalised(grey.expand(-1, 3, -1, -1))), atol=1e-5, rtol=1e-5
    )


@torch.no_grad()
def test_text_embeddings_match_open_clip(model, network):
    tokens = tokenise(clip_tokenizer(), TEXTS, maximum_tokens=24)
    expected = network.encode_text(open_clip.tokenizer.SimpleTokenizer()(TEXTS, context_length=24))
    torch.testing.assert_close(model.embed_texts(**tokens), expected, atol=1e-5, rtol=1e-5)


def test_tokens_and_truncation_match_open_clip():
    long = "a very long report, " * 20
    tokens = tokenise(clip_tokenizer(), [*TEXTS, long], maximum_tokens=24, truncate=True)
    expected = open_clip.tokenizer.SimpleTokenizer()([*TEXTS, long], context_length=24)
    assert torch.equal(tokens["input_ids"] * tokens["attention_mask"], expected)
    assert tokens["attention_mask"].sum(1)[-1] == 24


@torch.no_grad()
def test_region_embeddings_match_attention_pooling_of_a_single_region(model, network):
    """With a single token, attention has weight 1: open_clip's pooling of that cell without positions."""
    images = torch.rand(1, 3, 64, 96, generator=torch.Generator().manual_seed(1))
    regions = model.embed_images(images, regions=True).regions
    assert regions.shape == (1, 24, 2, 3)
    pool = tiny_clip().visual.attnpool
    pool.positional_embedding = torch.nn.Parameter(torch.zeros(2, 128))
    features = model.image_encoder(images)
    for row in range(2):
        for column in range(3):
            cell = features[:, :, row : row + 1, column : column + 1]  # its mean is itself
            torch.testing.assert_close(regions[:, :, row, column], pool(cell), atol=1e-5, rtol=1e-5)


@torch.no_grad()
def test_position_embeddings_are_interpolated_for_other_grids(model, network):
    other = open_clip.CLIP(**clip_config(image_size=96)).eval()
    state, key = network.state_dict(), "visual.attnpool.positional_embedding"
    picture = state[key][1:].view(2, 2, 128).permute(2, 0, 1)
    resized = resize(picture, [3, 3], interpolation=InterpolationMode.BICUBIC, antialias=True)
    other.load_state_dict(state | {key: torch.cat([state[key][:1], resized.permute(1, 2, 0).reshape(9, 128)])})
    images = torch.rand(2, 3, 96, 96, generator=torch.Generator().manual_seed(2))
    torch.testing.assert_close(model.embed_images(images).pooled, other.encode_image(normalised(images)), atol=1e-5, rtol=1e-5)


def test_clip_of_rebuilds_the_network_from_its_configuration(files, network):
    clip = load_clip(**files)
    assert clip.logit_scale == pytest.approx(network.logit_scale.exp().item())
    again = clip_of(clip.text_encoder.config)
    again.text_encoder.load_state_dict(clip.text_encoder.state_dict())
    again.image_encoder.load_state_dict(clip.image_encoder.state_dict())
    assert again.image_encoder.dimensions == clip.image_encoder.dimensions == 128


def test_images_are_normalised_as_in_the_published_configuration(tmp_path, files, network):
    given = {"mean": [0.1, 0.2, 0.3], "std": [0.4, 0.5, 0.6]}
    (tmp_path / "open_clip_config.json").write_text(json.dumps({"model_cfg": clip_config(), "preprocess_cfg": given}))
    clip = load_clip(str(tmp_path / "open_clip_config.json"), files["weights"])
    images = torch.rand(1, 3, 64, 64, generator=torch.Generator().manual_seed(3))
    with torch.no_grad():
        found = clip.image_projection(clip.image_encoder(images)).pooled
        torch.testing.assert_close(found, network.encode_image(normalised(images, **given)), atol=1e-5, rtol=1e-5)


@torch.no_grad()
def test_a_moving_average_of_the_network_stays_finite(model):
    guide = EmaGuide({"momentum": 0.9}, SimpleNamespace(network=model))
    for _ in range(3):
        guide.after_update()
    tokens = {"input_ids": torch.ones(2, 4, dtype=torch.int64), "attention_mask": torch.ones(2, 4, dtype=torch.int64)}
    torch.testing.assert_close(guide.average.module.embed_texts(**tokens), model.embed_texts(**tokens))


def test_gradients_reach_every_parameter(model):
    model.requires_grad_(True).train()
    tokens = tokenise(clip_tokenizer(), TEXTS, maximum_tokens=24)
    embedded = model.embed_images(torch.rand(4, 1, 64, 64), regions=True)
    scores = functional.normalize(model.embed_texts(**tokens)) @ functional.normalize(embedded.pooled).T
    (scores.diagonal().sum() + embedded.regions.sum()).backward()
    without = [name for name, one in model.named_parameters() if one.grad is None and "logit_scale" not in name]
    assert without == []
    model.eval()


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"model": "RN5"}, "RN5 is not a model of open_clip; expected one of RN50, "),
        ({"model": "nowhere.json"}, "nowhere.json: does not exist; expected a JSON configuration of open_clip"),
        ({"model": "ViT-B-32"}, "ViT-B-32 cannot be used; expected a CLIP model with a ResNet"),
        ({"model": "RN50", "weights": "openai"}, "different activation; use the model RN50-quickgelu"),
        ({"weights": "nowhere.pt"}, "nowhere.pt does not exist; expected a file or an open_clip tag (none"),
        ({"weights": __file__}, "a complete state dict of open_clip's"),
    ],
)
def test_unusable_models_and_weights_raise_an_error_with_a_remedy(files, changes, sentence):
    with pytest.raises(UserError) as refused:
        load_clip(**(files | changes))
    assert sentence in str(refused.value)


def test_a_failed_download_names_the_address_and_the_remedy(tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(UserError, match=r"cannot be downloaded from timm/resnet50_clip.openai \(.*\)\. Download"):
        load_clip("RN50-quickgelu", "openai")


def test_without_open_clip_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "open_clip", None)
    for needs_it in (lambda: load_clip("RN50"), clip_tokenizer):
        with pytest.raises(UserError, match=r"CLIP needs open_clip .*; install it with: pip install 'trueneg\[clip\]'\."):
            needs_it()
