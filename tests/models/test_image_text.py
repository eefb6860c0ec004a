"""The image–text model: shapes, projections, compatibility with the losses, and learning on a toy
problem.
"""

import numpy as np
import pytest
import torch
from torch.nn import functional

from trueneg.evaluation.grounding import box_masks, contrast_to_noise_ratio, upsample
from trueneg.evaluation.retrieval import recall_at_k
from trueneg.losses import CrossModalLoss, Debiased, LogitScale, RelaxedContrastiveLoss
from trueneg.models.pairs import PairModel
from trueneg.models.projection import build_head
from trueneg.models.region_similarity import RegionSimilarity, heatmaps
from trueneg.models.spatial_encoders import SmallSpatialResNet
from trueneg.models.text_encoders import BertTextEncoder, small_bert

SIMILARITIES = {
    "global": {},
    "lse": {"lse_sharpness": 5.0},
    "nl": {"attention_scale": 5.0},
    "lse+nl": {"lse_sharpness": 5.0, "attention_scale": 5.0},
}


def model_of(aggregation="lse+nl", seed=0, projection="linear"):
    torch.manual_seed(seed)
    texts = BertTextEncoder(small_bert(vocabulary_size=40, hidden=16, heads=2, dropout=0.0))
    images = SmallSpatialResNet(width=8)
    encoders = {"image_encoder": images, "text_encoder": texts}
    head = {"name": projection, "hidden": None, "dimensions": 12}
    heads = {
        "image_projection": build_head(images.dimensions, **head),
        "text_projection": build_head(texts.dimensions, **head),
    }
    similarity = RegionSimilarity(aggregation, **SIMILARITIES[aggregation])
    return PairModel(encoders | heads, similarity, LogitScale(14.0))


def scores_of(model, images, tokens):
    anchors = model.embed("text_", **tokens).pooled
    return model.similarity(anchors, model.embed("image_", images))


def batch_of(count, seed=1):
    """Return images with one of eight textures at a random place, and sentences of two words that
    name it.
    """
    generator = torch.Generator().manual_seed(seed)
    textures = torch.randperm(8, generator=generator)[:count]
    places = torch.randint(4, (count, 2), generator=generator)
    images = 0.3 * torch.randn(count, 1, 64, 64, generator=generator)
    stripes = (torch.arange(16) // 2 % 2 * 2.0 - 1).repeat(16, 1)
    patterns = [stripes, stripes.T, stripes * stripes.T, torch.ones(16, 16)]
    for image, texture, (row, column) in zip(
        images, textures.tolist(), places.tolist(), strict=True
    ):
        sign = 2 * (texture // 4) - 1
        image[0, 16 * row : 16 * row + 16, 16 * column : 16 * column + 16] += (
            2 * patterns[texture % 4] + sign
        )
    words = torch.stack(
        [
            torch.full_like(textures, 2),
            5 + textures // 4,
            10 + textures % 4,
            torch.full_like(textures, 3),
        ],
        dim=1,
    )
    return images, {"input_ids": words, "attention_mask": torch.ones_like(words)}, places


@pytest.mark.parametrize("aggregation", SIMILARITIES)
@pytest.mark.parametrize("projection", ["linear", "mlp"])
def test_similarities_of_a_batch_are_bounded_and_reach_every_parameter(aggregation, projection):
    model = model_of(aggregation, projection=projection).train()
    images, tokens, _ = batch_of(5)
    similarity = scores_of(model, images, tokens)
    assert similarity.shape == (5, 5)
    assert similarity.abs().max() <= 1 + 1e-5
    assert model.logit_scale().item() == pytest.approx(14)
    CrossModalLoss(Debiased(0.02), directions="text")(similarity, model.logit_scale()).backward()
    without = {name for name, parameter in model.named_parameters() if parameter.grad is None}
    assert not without


def test_a_linear_projection_commutes_with_the_average_and_a_two_layer_one_does_not():
    images, _, _ = batch_of(3)
    for projection, commutes in (("linear", True), ("mlp", False)):
        embedded = model_of(projection=projection).eval().embed("image_", images)
        close = torch.allclose(embedded.pooled, embedded.regions.mean((2, 3)), atol=1e-6)
        assert close == commutes
        assert embedded.regions.shape == (3, 12, 8, 8)


def test_projections_have_the_documented_layers():
    model = model_of(projection="mlp").eval()
    images, tokens, _ = batch_of(3)
    features = model.image_encoder(images).mean((2, 3))
    first, _, last = model.image_projection
    expected = functional.relu(features @ first.weight.T + first.bias) @ last.weight.T + last.bias
    torch.testing.assert_close(model.embed("image_", images).pooled, expected)
    vectors = model_of().eval()
    expected = vectors.text_projection(vectors.text_encoder(**tokens))
    torch.testing.assert_close(vectors.embed("text_", **tokens).pooled, expected)


def test_regions_are_projected_if_needed_or_requested():
    model = model_of("global").eval()
    images, tokens, _ = batch_of(3)
    assert model.embed("image_", images).regions is None
    embedded = model.embed("image_", images, regions=True)
    scores = heatmaps(model.embed("text_", **tokens).pooled, embedded.regions)
    assert scores.shape == (3, 8, 8)
    expected = functional.cosine_similarity(
        model.embed("text_", **tokens).pooled[:, :, None, None], embedded.regions, dim=1
    )
    torch.testing.assert_close(scores, expected)
    assert model_of("lse").eval().embed("image_", images).regions is not None


def test_texts_at_once_does_not_change_similarities():
    model = model_of().eval()
    images, tokens, _ = batch_of(7)
    texts, embedded = model.embed("text_", **tokens).pooled, model.embed("image_", images)
    whole = model.similarity(texts, embedded)
    for texts_at_once in (1, 3, 100):
        torch.testing.assert_close(
            model.similarity(texts, embedded, anchors_at_once=texts_at_once), whole
        )


def test_relaxed_contrastive_loss_accepts_pooled_embeddings():
    model = model_of("global", projection="mlp").train()
    images, tokens, _ = batch_of(4)
    loss = RelaxedContrastiveLoss()(
        model.embed("text_", **tokens).pooled, model.embed("image_", images).pooled
    )
    loss.backward()
    assert model.image_encoder.conv1.weight.grad.abs().sum() > 0


def test_training_learns_to_match_and_localise_sentences():
    """Eight textures at random places are retrieved in unseen images, and heatmaps are high at
    these places.
    """
    model = model_of("lse+nl", seed=1).train()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    loss = CrossModalLoss(Debiased(0.0), directions="text")
    for step in range(240):
        images, tokens, _ = batch_of(8, seed=step)
        optimizer.zero_grad()
        loss(scores_of(model, images, tokens), model.logit_scale()).backward()
        optimizer.step()
    model.eval()
    recalls, ratios = [], []
    for seed in range(1000, 1010):
        images, tokens, places = batch_of(8, seed=seed)
        with torch.no_grad():
            texts, embedded = model.embed("text_", **tokens).pooled, model.embed("image_", images)
            recalls.append(recall_at_k(model.similarity(texts, embedded), (1,))[1])
            grids = upsample(heatmaps(texts, embedded.regions), (64, 64))
        corners = 16 * places.flip(1)
        masks = box_masks(torch.cat([corners, corners + 16], dim=1), (64, 64))
        ratios += [
            contrast_to_noise_ratio(heatmap, mask, signed=True)
            for heatmap, mask in zip(grids, masks, strict=True)
        ]
    assert np.mean(recalls) > 0.9
    assert np.mean(ratios) > 1
