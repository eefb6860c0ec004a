"""Near duplicates in two splits are counted and shown. The reference is how many samples each
example was made to have, exact trigrams, and pillow's thumbnails.
"""

import re
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from tests.data.pictures import encoded, picture
from tests.data.test_leakage import pairs_source
from tests.studies import tiny_study
from trueneg.cli.main import main
from trueneg.data.decoding import decode_resized
from trueneg.data.draw import draw_subsets
from trueneg.data.images.image_source import ImageSource, write_source
from trueneg.data.images.loading import load_source
from trueneg.data.near_duplicates import looks_of_images, looks_of_texts, near_duplicates
from trueneg.data.samples import Subset, read_subsets
from trueneg.data.texts.text_files import source_of
from trueneg.specs.kinds import kind_of

seeds = st.integers(0, 2**31 - 1)
quick = settings(deadline=None, max_examples=6)


def near_in(text) -> tuple[int, int]:
    """The numbers of a message."""
    count, of = re.search(r"([\d,]+) of ([\d,]+) test samples nearly equal", text).groups()
    return int(count), int(of)


COPIES = (
    lambda image: encoded(image, "JPEG", quality=60),
    lambda image: encoded(image.resize((48, 48), Image.Resampling.BICUBIC)),
    lambda image: encoded(image.point(lambda level: 0.8 * level)),
    lambda image: encoded(image.crop((1, 1, 95, 95))),
)


@quick
@given(seeds, st.integers(0, 5), st.booleans())
def test_changed_copies_of_images_are_counted(seed, near, restricted):
    generator = np.random.default_rng(seed)
    pictures = [picture(seed + number, 96, 96) for number in range(30)]
    contents = [encoded(each) for each in pictures]
    for number in range(near):
        contents[20 + number] = COPIES[generator.integers(len(COPIES))](pictures[number])
    pixels = np.stack([decode_resized(each, "RGB", 48) for each in contents])
    names = np.array([f"n{number:02d}" for number in range(30)])
    subset = Subset(0, "", train=np.arange(15), test=np.arange(20, 30))
    for source in (
        ImageSource("own", pixels, np.arange(30) % 2, np.zeros(30, bool), ("a", "b"), names=names),
        pairs_source(pixels, names, names, restricted),
    ):
        said = near_duplicates(source.samples, source.looks(), subset)
        assert (near_in(said) if near else said) == ((near, 10) if near else "")
        assert ("“n20” and “n00”" in said) == (near > 0 and not source.samples.restricted)
        assert len(re.findall(r"n2\d” and “n0\d", said)) in (0, min(near, 3))


def test_thumbnails_are_averages_without_their_mean():
    images = np.random.default_rng(0).integers(0, 256, (300, 3, 32, 64), np.uint8)
    for number, vector in enumerate(looks_of_images(images, np.empty(0, str)).vectors[::50]):
        grey = Image.fromarray(images[50 * number].mean(0, dtype=np.float32))
        small = np.asarray(grey.resize((16, 16), Image.Resampling.BOX))
        expected = (small - small.mean()).ravel()
        np.testing.assert_allclose(vector, expected / np.linalg.norm(expected), atol=1e-5)


@pytest.mark.parametrize("shape", [(1, 8, 8), (3, 1, 32), (1, 40, 40)])
def test_images_with_too_few_pixels_or_of_one_colour_are_like_no_other(shape):
    generator = np.random.default_rng(0)
    images = np.repeat(generator.integers(0, 256, (1, *shape), np.uint8), 4, axis=0)
    if shape[-1] == 40:
        images[:] = 7
    looks = looks_of_images(images, np.empty(0, str))
    samples = pairs_source(images, list("abcd"), list("abcd")).samples
    subset = Subset(0, "", train=np.arange(2), test=np.arange(2, 4))
    assert near_duplicates(samples, looks, subset) == ""


WORDS = ["where", "when", "card", "money", "transfer", "account", "limit", "fee", "cash"]
WORDS += ["abroad", "exchange", "rate", "pending"]


def sentence_of(generator, length=12):
    return " ".join(generator.choice([*WORDS, *(f"{word}s" for word in WORDS)], length))


def exact_cosine(first, second):
    counts = []
    for text in (first, second):
        words = f"  {' '.join(re.findall(r'[a-z0-9]+', text.lower()))} "
        counts.append(Counter(words[place : place + 3] for place in range(len(words) - 2)))
    product = sum(counts[0][each] * counts[1][each] for each in counts[0])
    return product / np.prod([sum(n**2 for n in each.values()) ** 0.5 for each in counts])


@quick
@given(seeds)
def test_vectors_of_texts_are_close_to_their_trigrams(seed):
    generator = np.random.default_rng(seed)
    texts = [sentence_of(generator, 25) for _ in range(8)]
    texts += [text.upper().replace(" ", ", ", 3) + "!" for text in texts]
    vectors = looks_of_texts(texts, np.empty((0, 1), np.int64)).vectors
    exact = np.array([[exact_cosine(first, second) for second in texts] for first in texts])
    assert np.abs(vectors @ vectors.T - exact).max() < 0.3
    assert np.abs(vectors @ vectors.T - exact).mean() < 0.06
    np.testing.assert_allclose((vectors[:8] * vectors[8:]).sum(1), 1, atol=1e-5)


@quick
@given(seeds, st.integers(0, 5), st.booleans())
def test_changed_copies_of_texts_are_counted(seed, near, is_pair):
    generator = np.random.default_rng(seed)
    texts = [f"{sentence_of(generator)} {number**5}" for number in range(60)]
    changed = (
        lambda text: text.upper() + "!",
        lambda text: text.replace(" ", ", ", 2),
        lambda text: f"a {text}",
    )
    for number in range(near):
        # an anchor, or a positive
        copy = changed[generator.integers(3)](texts[number + 30 * (number % 2)])
        texts[number + 20 + 30 * is_pair * (number % 3 == 0)] = copy
    table = pd.DataFrame({"split": "", "label": "", "text": texts[:30], "positive": texts[30:]})
    if not is_pair:
        texts[30:] = texts[:30]
        table = table.drop(columns="positive")
        near = len([n for n in range(near) if n % 2 == 0])
    source = source_of({"source": "made up"}, table, "")
    subset = Subset(0, "", train=np.arange(15), test=np.arange(20, 30))
    said = near_duplicates(source.samples, source.looks(), subset)
    assert (near_in(said) if near else said) == ((near, 10) if near else "")


def test_check_log_and_subset_have_the_same_numbers(tmp_path, monkeypatch, capsys, caplog):
    monkeypatch.chdir(tmp_path)
    for number in range(60):
        image = picture(number, 64, 64)
        place = Path("own") / ("test" if number >= 40 else "train") / "ab"[number % 2]
        place.mkdir(parents=True, exist_ok=True)
        if number in (41, 52, 57):
            image = picture(number - 40, 64, 64)
        image.save(place / f"{number}.jpg", quality=60 if number < 40 else 50)
    dataset = {"source": "image_folder", "path": "own", "resolution": 32, "validation": 0.1}
    study = tiny_study(dataset=dataset, augmentation={"name": "color"})
    study["training"]["batch_size"] = 8
    Path("study.yaml").write_text(yaml.safe_dump({"tiny": study}))
    assert main(["check", "study.yaml"]) == 0
    printed = capsys.readouterr().out
    write_source(load_source("image_folder", path="own", resolution=32), "source.npz")
    settings_of = {"rare_classes": [], "fraction": 1.0, "images_per_class": None, "test": None}
    draw_subsets(kind_of(study), "source.npz", dataset | settings_of, [0, 1], "subsets.parquet")
    subsets = read_subsets("subsets.parquet")
    assert subsets[1].near == ""
    count, of = near_in(subsets[0].near)
    trained = subsets[0].train
    sources = [number - 40 for number in (41, 52, 57)]
    names = load_source("image_folder", path="own", resolution=32).names[trained]
    assert count == len({Path(name).stem for name in names} & {str(each) for each in sources})
    assert of == 20
    assert count
    assert subsets[0].near.rstrip(".") in printed
    assert caplog.text.count(subsets[0].near) == 1


def test_texts_have_the_hashed_trigrams_that_a_loop_over_their_letters_counts(monkeypatch):
    monkeypatch.setattr("trueneg.data.near_duplicates.TEXTS_AT_ONCE", 3)
    texts = ["Top-up!", "", "a", "Where is my card?", "Ça va — 好吗", "aa", "aaaa aaaa", "?!"]
    looks = looks_of_texts(texts, np.arange(len(texts))[:, None])
    for text, vector in zip(texts, looks.vectors, strict=True):
        letters = f"  {re.sub('[^0-9a-zà-ÿ好吗]+', ' ', text.lower()).strip()} "
        expected = [0] * 256
        for first, second, third in zip(letters, letters[1:], letters[2:], strict=False):
            code = (ord(first) << 42) ^ (ord(second) << 21) ^ ord(third)
            place = (code * 0x9E3779B97F4A7C15 % 2**64) >> 55
            expected[place % 256] += 1 if place < 256 else -1
        length = sum(count**2 for count in expected) ** 0.5 or 1
        assert vector == pytest.approx([count / length for count in expected], abs=1e-6)
