"""Frozen towers as guides: what they compare, whose vectors they share, and which settings are
refused.
"""

import numpy as np
import pytest
import torch

from tests.objectives import train_one_update
from tests.studies import first_run, tiny_study, tiny_words, tiny_world
from tests.textures import settings_of as pair_settings
from tests.textures import texture_source
from tests.training.interrupted import assert_same_weights, without_times
from tests.training.test_simclr import settings_of
from trueneg.config.reading import load_configuration
from trueneg.config.runs import all_runs, features_key, frozen_towers, variants
from trueneg.data.images.image_source import write_source
from trueneg.data.images.loading import load_source
from trueneg.data.images.subsets import make_subset
from trueneg.data.pairs.pair_source import distinct_texts, write_pairs
from trueneg.data.pairs.pair_splits import split_pairs
from trueneg.data.stored_features import StoredFeatures
from trueneg.errors import UserError
from trueneg.report.labels import variant_name
from trueneg.store.identity import identity
from trueneg.store.run_files import named_files, run_checksums
from trueneg.store.versions import training_versions
from trueneg.training.frozen import Frozen, compute_features, read_frozen, vector_names
from trueneg.training.guides.base import GuideBatch
from trueneg.training.image_text import ImageText
from trueneg.training.simclr import SimCLR

CPU = torch.device("cpu")
SOFTMAX = {"name": "softmax", "temperature": 0.1, "share": 1.0}
OBJECTIVES = [
    {"name": "guided", "margin": 0.0},
    {"name": "remove", "by": "guide", "threshold": 0.3, "top_k": None},
    {"name": "reweight", "by": "guide"},
    {"name": "resample", "by": "guide", "size": 8},
    {"name": "cl", "targets": SOFTMAX},
]


def vectors_of(path, count, dimensions=6):
    """Write a file of vectors and return the settings of the tower that stands for it."""
    np.save(
        path, np.random.default_rng(count).standard_normal((count, dimensions)).astype(np.float32)
    )
    return {"name": "vectors", "path": str(path), "column": None, "train": "none"}


def computed(settings, source, folder):
    """Compute the vectors of all frozen towers of a run, and read them."""
    files = []
    for made in frozen_towers(settings).values():
        files.append(folder / f"{features_key(made)}.npz")
        place = {"source": folder / "source.npz", "features": files[-1], "cache": folder / "cache"}
        compute_features(made, **place, device="cpu", threads=1)
    return read_frozen(vector_names(settings), source, files)


def resolved(objective, **sections):
    """Return an objective's settings in an image study or, with sections of its own, in an
    image–text study.
    """
    if not sections:
        study = tiny_study(objectives=tiny_study()["objectives"] | {"Guided": objective})
        return first_run("tiny", {"tiny": study}, "Guided").settings
    objectives = tiny_world()["objectives"] | {"Guided": objective}
    return first_run(
        "world",
        {"words": tiny_words(), "world": tiny_world(objectives=objectives, **sections)},
        "Guided",
    ).settings


def test_images_are_rated_by_the_vectors_of_their_rows(tmp_path):
    source = load_source("digits")
    write_source(source, tmp_path / "source.npz")
    tower = vectors_of(tmp_path / "vectors.npy", len(source.images))
    settings = {
        **settings_of(),
        "objective": {
            "name": "guided",
            "margin": 0.1,
            "guide": {"name": "encoder", "encoder": tower},
        },
    }
    frozen = computed(settings, source, tmp_path)
    assert frozen.images is None  # the encoder itself is trained
    subset = make_subset(source, seed=0, fraction=0.25, rare_classes=[5, 6, 7, 8, 9], test=0.25)
    training = SimCLR(settings, 0, source, subset, CPU, frozen=frozen)
    chosen, _ = next(training.batches(1))
    rated = training.rated(GuideBatch((chosen, chosen), None, None))
    vectors = torch.from_numpy(np.load(tmp_path / "vectors.npy")[subset.train[chosen.numpy()]])
    expected = torch.nn.functional.cosine_similarity(vectors[:, None], vectors[None], dim=-1)
    torch.testing.assert_close(rated.negative_similarity, expected)
    assert rated.positive_similarity.tolist() == [1] * len(chosen)
    train_one_update(training)


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    source = texture_source(patients=40)
    folder = tmp_path_factory.mktemp("pairs")
    write_pairs(source, folder / "source.npz")
    return source, split_pairs(source, 0), folder


class TestPairs:
    """Guides of image–text training, on sentences that occur in several reports."""

    def started(self, pairs, objective, guide):
        source, subset, folder = pairs
        dataset = first_run("world", {"words": tiny_words(), "world": tiny_world()}, "CL").settings[
            "dataset"
        ]
        settings = pair_settings(
            {"directions": "both", **objective, "guide": {"name": "encoder", **guide}}
        ) | {"dataset": dataset}
        return ImageText(
            settings, 0, source, subset, CPU, frozen=computed(settings, source, folder)
        )

    def towers(self, pairs):
        source, _, folder = pairs
        sentences = vectors_of(folder / "sentences.npy", len(source.sentences))
        return {
            "encoder": vectors_of(folder / "images.npy", len(source.images)),
            "text_encoder": sentences,
        }

    def expected(self, training, batch, section, vectors):
        """Return the vectors of a batch: of its images or, of the first sentence with each text, of
        its sentences.
        """
        source = training.data.source
        if section == "encoder":
            rows = training.data.image_rows[batch.columns]
        else:
            every = source.sentences["sentence"].tolist()
            rows = [
                every.index(training.data.sentences[number]) for number in batch.anchors.tolist()
            ]
        return torch.from_numpy(vectors[rows])

    @pytest.mark.parametrize("section", ["encoder", "text_encoder"])
    def test_samples_are_compared_by_the_modality_of_the_tower(self, pairs, section):
        towers = self.towers(pairs)
        training = self.started(pairs, OBJECTIVES[0], {section: towers[section]})
        batch, _ = next(training.batches(1))
        rated = training.rated(GuideBatch(*training.data.compared(batch), None))
        vectors = self.expected(training, batch, section, np.load(towers[section]["path"]))
        cosines = torch.nn.functional.cosine_similarity(vectors[:, None], vectors[None], dim=-1)
        torch.testing.assert_close(rated.negative_similarity, cosines, rtol=1e-5, atol=1e-6)

    @pytest.mark.parametrize("section", ["encoder", "text_encoder"])
    def test_permuted_vectors_are_those_of_other_samples(self, pairs, section):
        """Each of the training samples' vectors belongs to one other sample, or to all sentences
        with one other text.
        """
        guide = {section: self.towers(pairs)[section]}
        plain, permuted, again = (
            self.started(pairs, OBJECTIVES[0], guide | {"permuted": value}).guide.features
            for value in (False, True, True)
        )
        (key,) = plain
        assert torch.equal(permuted[key], again[key])
        distinct = [side[key].unique(dim=0, return_inverse=True) for side in (plain, permuted)]
        assert torch.equal(distinct[0][0], distinct[1][0])
        assert len(set(zip(*(inverse.tolist() for _, inverse in distinct), strict=True))) == len(
            distinct[0][0]
        )
        same = (plain[key] == permuted[key]).all(1).double().mean().item()
        assert same < 0.2

    def test_two_towers_of_one_space_compare_texts_with_images(self, pairs):
        source, subset, _ = pairs
        generator, texts = np.random.default_rng(0), distinct_texts(source)
        made = {
            section: StoredFeatures(
                generator.standard_normal((count, 1, 6, 1)).astype(np.float32), None, "", ""
            )
            for section, count in {
                "encoder": len(source.images),
                "text_encoder": len(texts),
            }.items()
        }
        rows = {text: row for row, text in enumerate(texts)}
        frozen = Frozen({f"guide {section}": stored for section, stored in made.items()}, rows)
        settings = pair_settings({**OBJECTIVES[0], "guide": {"name": "encoder"}})
        training = ImageText(settings, 0, source, subset, CPU, frozen=frozen)
        batch, _ = next(training.batches(1))
        rated = training.rated(GuideBatch(*training.data.compared(batch), None))
        images = self.expected(training, batch, "encoder", made["encoder"].values[:, 0, :, 0])
        rows = [texts.index(training.data.sentences[number]) for number in batch.anchors.tolist()]
        of_texts = torch.from_numpy(made["text_encoder"].values[rows, 0, :, 0])
        cosines = torch.nn.functional.cosine_similarity(of_texts[:, None], images[None], dim=-1)
        torch.testing.assert_close(rated.negative_similarity, cosines, rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(
            rated.positive_similarity, cosines.diagonal(), rtol=1e-5, atol=1e-6
        )

    def test_vectors_of_texts_and_images_need_one_space(self, pairs):
        source, _, folder = pairs
        other = vectors_of(folder / "other.npy", len(source.images), dimensions=4)
        with pytest.raises(
            UserError, match="4 for images and 6 for texts dimensions; use towers of one space"
        ):
            self.started(pairs, OBJECTIVES[0], self.towers(pairs) | {"encoder": other})

    @pytest.mark.parametrize("objective", OBJECTIVES, ids=lambda objective: objective["name"])
    def test_a_run_resumes_bit_for_bit(self, pairs, objective):
        guide = {"text_encoder": self.towers(pairs)["text_encoder"]}
        whole, killed, resumed = (self.started(pairs, objective, guide) for _ in range(3))
        row = whole.train_epoch()
        train_one_update(killed)
        resumed.load_state(*killed.state())
        assert without_times([resumed.train_epoch()]) == without_times([row])
        assert_same_weights(whole, resumed)


TIMM, MINILM = (
    {"name": "timm", "model": "vit_tiny_patch16_224"},
    {"name": "sentence_transformers", "model": "all-MiniLM-L6-v2"},
)
CLIP = {"name": "open_clip", "model": "ViT-B-32", "weights": "openai"}
BY_IMAGES = {"name": "guided", "margin": 0.1, "guide": {"name": "encoder", "encoder": TIMM}}


def test_a_guide_and_a_frozen_encoder_share_their_vectors():
    guided = {"name": "guided", "guide": {"name": "encoder", "text_encoder": MINILM}}
    settings = resolved(guided, text_encoder=MINILM | {"train": "none"})
    assert list(frozen_towers(settings)) == ["text_encoder", "guide text_encoder"]
    assert len(set(map(features_key, frozen_towers(settings).values()))) == 1
    assert named_files(settings)["guide text_encoder model"] == "all-MiniLM-L6-v2"
    assert set(frozen_towers(resolved(BY_IMAGES))) == {"guide encoder"}


@pytest.mark.parametrize(("resolution", "stored"), [(None, 1), (64, 2)])
def test_a_guide_uses_the_image_itself_among_the_views_of_its_own_tower(resolution, stored):
    guide = {"name": "encoder", "encoder": TIMM | {"resolution": resolution}}
    study = tiny_study(
        encoder=TIMM | {"train": "none", "views": 2},
        objectives={
            "CL": {"name": "cl"},
            "Guided": {"name": "remove", "threshold": 0.5, "guide": guide},
            "Oracle": {"name": "oracle"},
        },
    )
    study["primary"] |= {"treatment": "Guided"}
    loaded = load_configuration({"tiny": study}, "study.yaml").studies["tiny"]
    settings = next(run for run in all_runs("tiny", loaded) if run.objective == "Guided").settings
    made = frozen_towers(settings)
    assert list(made) == ["encoder", "guide encoder"]
    assert len(set(map(features_key, made.values()))) == stored
    assert made["encoder"]["tower"]["views"] == 2


def test_the_tower_of_a_guide_is_frozen_and_part_of_the_run(tmp_path):
    settings = resolved(BY_IMAGES)
    assert settings["objective"]["guide"]["encoder"]["train"] == "none"
    assert identity(settings)["objective"]["guide"]["encoder"]["model"] == TIMM["model"]
    assert training_versions(settings)["encoder/images/timm"] == 1
    stored = StoredFeatures(np.zeros((1, 1, 1, 1), np.float32), None, "abc", "")
    assert Frozen({"guide encoder": stored}).towers == {
        "guide encoder": {"weights": "abc", "dimensions": 1}
    }
    towers = [vectors_of(tmp_path / f"{count}.npy", count) for count in (3, 4)]
    runs = [
        resolved({"name": "guided", "margin": 0.1, "guide": {"name": "encoder", "encoder": tower}})
        for tower in towers
    ]
    assert identity(runs[0]) == identity(runs[1])  # the paths; the files' checksums differ
    checksums = [run_checksums(run)["guide encoder path"] for run in runs]
    assert len(set(checksums)) == 2


def test_the_model_of_a_guides_tower_can_be_swept():
    guide = {"name": "encoder", "text_encoder": MINILM | {"model": ["a/b", "c/d"]}}
    objectives = tiny_world()["objectives"] | {"Guided": {"name": "guided", "guide": guide}}
    study = load_configuration(
        {
            "words": tiny_words(),
            "world": tiny_world(objectives=objectives, sweeps="one at a time"),
        },
        "test",
    ).studies["world"]
    runs = [run for run in all_runs("world", study) if run.objective.startswith("Guided")]
    assert {run.settings["objective"]["guide"]["text_encoder"]["model"] for run in runs} == {
        "a/b",
        "c/d",
    }
    # of files, whose names end at a slash
    labels = {f"Guided,guide.text_encoder.model={name}" for name in ("a_b", "c_d")}
    assert {run.objective for run in runs} == labels
    assert {variant_name("Guided", each) for each in variants(study)["Guided"].values()} == labels


@pytest.mark.parametrize(
    ("guide", "facts"),
    [
        ({"encoder": TIMM | {"train": "all"}}, ["guide.encoder", "not trained"]),
        ({"encoder": TIMM | {"train": "none", "views": 2}}, ["guide.encoder", "views"]),
        ({}, ["guide", "encoder, text_encoder"]),
        (
            {"encoder": TIMM, "text_encoder": MINILM},
            ["timm", "sentence_transformers", "expected open_clip for both"],
        ),
        (
            {"encoder": CLIP, "text_encoder": CLIP | {"weights": "laion2b_s34b_b79k"}},
            ["openai", "laion2b_s34b_b79k"],
        ),
        (
            {"encoder": CLIP | {"model": ["a", "b"]}, "text_encoder": CLIP | {"model": ["a", "b"]}},
            ["with one model"],
        ),
        ({"encoder": {"name": "small"}}, ["guide.encoder", "small"]),
    ],
)
def test_unusable_towers_are_refused(guide, facts):
    with pytest.raises(UserError) as refused:
        resolved({"name": "guided", "guide": {"name": "encoder", **guide}}, seeds=1)
    assert all(fact in str(refused.value) for fact in facts), str(refused.value)


def test_both_towers_of_one_open_clip_model_may_guide():
    settings = resolved(
        {"name": "guided", "guide": {"name": "encoder", "encoder": CLIP, "text_encoder": CLIP}},
        seeds=1,
    )
    assert list(frozen_towers(settings)) == ["guide encoder", "guide text_encoder"]


def test_files_of_vectors_of_images_and_texts_may_guide_together(tmp_path):
    towers = {key: vectors_of(tmp_path / f"{key}.npy", 3) for key in ("encoder", "text_encoder")}
    settings = resolved({"name": "guided", "guide": {"name": "encoder", **towers}}, seeds=1)
    assert list(frozen_towers(settings)) == ["guide encoder", "guide text_encoder"]
