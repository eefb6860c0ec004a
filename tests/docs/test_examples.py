"""The example programs: their parts, and each of them from end to end in miniature."""

import importlib.util
import itertools
import os
import re
import subprocess
import sys

import numpy as np
import pytest
import torch

from tests.projects import ROOT
from trueneg.losses import Debiased, Guided, Uncorrected

PROGRAM = ROOT / "examples/text_embeddings/train.py"
WORDS = [f"{first}{second}" for first in "bdfgklmn" for second in ("a", "e", "i", "o", "u")]


@pytest.fixture(scope="module")
def example():
    """The program as a module; the packages with verses are imported when it reads them."""
    pytest.importorskip("sentence_transformers", "5.4", reason="the example trains with sentence-transformers")
    for needed in ("datasets", "accelerate"):
        pytest.importorskip(needed, reason="sentence-transformers' trainer needs it")
    spec = importlib.util.spec_from_file_location("text_embeddings", PROGRAM)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def sentences(count, vocabulary, shortest=1, longest=9, seed=0):
    draw = np.random.default_rng(seed)
    return [" ".join(draw.choice(vocabulary, draw.integers(shortest, longest + 1))) for _ in range(count)]


def similarity(one, other):
    """Jaccard similarity of the words of two texts, from its definition."""
    first, second = set(one.split()), set(other.split())
    return len(first & second) / len(first | second)


def verses(count):
    """Texts in three translations, of which some say the same in the third."""
    columns = [sentences(count, WORDS, 4, 9, seed) for seed in range(2)]
    return np.array([*columns, sentences(count, WORDS[:8], 2, 6, 2)]).T


@pytest.mark.parametrize("threshold", [0.5, 0.8, 1.0])
def test_pairs_that_say_the_same_are_those_of_all_pairs_that_reach_the_threshold(example, threshold):
    texts = sentences(150, WORDS[:6])
    wanted = [(i, j) for i, j in itertools.combinations(range(150), 2) if similarity(texts[i], texts[j]) >= threshold]
    assert 20 < len(wanted) < 150 * 149 / 2
    assert example.pairs_that_say_the_same(texts, threshold) == wanted


def test_case_and_punctuation_make_no_difference(example):
    assert example.pairs_that_say_the_same(["And he said, Go!", "Something else.", "and [he] said: go"]) == [(0, 2)]


def test_no_held_out_verse_says_the_same_as_a_training_verse(example):
    training, classes, share, test, relevant = example.split(verses(600), 300, seed=0)
    assert len(training) == 200
    assert 10 < len(test) < 100  # the others of the third that is held out say the same as a training verse
    assert max(similarity(one, other) for one in test[:, 2] for other in training[:, 2]) < 0.8
    same = [[similarity(one, other) >= 0.8 for other in training[:, 2]] for one in training[:, 2]]
    assert share == pytest.approx((np.sum(same) - 200) / (200 * 199))
    assert share > 0
    assert all(classes[i] == classes[j] for i, j in np.argwhere(same))
    assert relevant.tolist() == [[similarity(one, other) >= 0.8 for other in test[:, 2]] for one in test[:, 2]]


def test_methods_share_initial_weights_and_batches(example):
    texts = verses(130)
    drawn = [(Uncorrected(), 0), (Debiased(0.0), 0), (Guided(), 0), (Uncorrected(), 1)]
    ours, same, guided, other = (
        example.train(estimator, texts, np.arange(130), seed, epochs=2).encode(list(texts[:, 0]), convert_to_tensor=True)
        for estimator, seed in drawn
    )
    torch.testing.assert_close(ours, same)  # without false negatives to subtract it is the same loss
    assert (ours - guided).abs().max() > 1e-3
    assert (ours - other).abs().max() > 0.1


def test_the_guide_is_the_exponential_moving_average_of_the_trained_weights(example):
    model = torch.nn.Linear(1, 1, bias=False)
    guide = example.MovingAverage(model, momentum=0.75)
    for weight in (4.0, 8.0, 0.0):  # the first step's weights, then 0.75 · average + 0.25 · weights
        torch.nn.init.constant_(model.weight, weight)
        guide.on_step_end(None, None, None, model=model)
    assert guide.average.module.weight.item() == pytest.approx(0.75 * (0.75 * 4 + 0.25 * 8))


def test_the_interval_is_that_of_a_paired_t_test(example):
    baseline = [80.0, 85.0, 81.0]  # the quantile of t with 2 degrees of freedom is 4.303, so half the width is 4.303 / √3
    assert example.compared([81.0, 87.0, 84.0], baseline) == "84.00 | +2.00 [−0.48, +4.48]"
    assert example.compared([79.0, 83.0, 78.0], baseline) == "80.00 | −2.00 [−4.48, +0.48]"


def test_the_example_is_as_short_as_its_page_says():
    (lines,) = re.findall(r"one file of (\d+) lines", PROGRAM.with_name("README.md").read_text())
    assert len(PROGRAM.read_text().splitlines()) == int(lines)


@pytest.mark.parametrize("differences", [[1.5], [1.5, 1.5, 1.5]])
def test_one_seed_or_equal_differences_have_no_interval(example, differences):
    assert example.compared(differences, [0.0] * len(differences)) == "1.50 | +1.50"


@pytest.mark.long
def test_the_example_of_text_embeddings_runs_from_end_to_end(example):
    for name in (example.ANCHOR, example.POSITIVE, example.THIRD):
        reason = "the verses are not installed: pip install -r examples/text_embeddings/requirements.txt"
        pytest.importorskip(f"pythonbible_{name}", reason=reason)
    environment = os.environ | {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    settings = ["--verses", "600", "--epochs", "1", "--seeds", "2"]
    done = subprocess.run([sys.executable, PROGRAM, *settings], env=environment, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stdout + done.stderr
    measured = re.findall(r"^  (.+): R@1 ([\d.]+), MRR ([\d.]+)$", done.stdout, re.M)
    methods = list(example.ESTIMATORS)
    assert [name for name, *_ in measured] == ["untrained", *methods] * 2
    values = {method: np.array([each for name, *each in measured if name == method], dtype=float) for method in methods}
    rows = [line.strip("| ").split(" | ") for line in done.stdout.splitlines() if line.startswith("|")][2:]
    assert [row[0] for row in rows] == methods
    for method, *cells in rows:
        means, differences = ([float(cell.split(" ")[0].replace("−", "-")) for cell in cells[first::2]] for first in (0, 1))
        assert means == pytest.approx(values[method].mean(0), abs=0.011)
        assert differences == pytest.approx((values[method] - values["CL"]).mean(0), abs=0.021)
        assert all(20 < mean <= 100 for mean in means)  # in per cent; 0.5 by chance
