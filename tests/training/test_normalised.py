"""A normalised guide rates with (s − o) / (1 − o), where o follows the mean similarity of different samples."""

import math
from types import SimpleNamespace

import pytest
import torch

from tests.questions import question_source, settings_of, started
from trueneg.training.guides.base import Batch, Guide, Rated
from trueneg.training.guides.normalised import NormalisedGuide

GUIDED = {"name": "guided", "margin": -0.1, "guide": {"name": "words", "normalised": True}}


class Fixed(Guide):
    """Rates each batch with the next of some similarities."""

    def rate(self, batch):
        return self.settings.pop(0)


def offset_after(matrices, count):
    """The average after each batch, from loops over the similarities of different samples."""
    offset, offsets = math.nan, []
    for matrix in matrices:
        rows, columns = range(len(matrix)), range(len(matrix[0]))
        others = [matrix[i][j] for i in rows for j in columns if j >= len(matrix) or i % count != j % count]
        mean = sum(others) / len(others)
        offset = mean if math.isnan(offset) else 0.99 * offset + 0.01 * mean
        offsets.append(offset)
    return offsets


@pytest.mark.parametrize(("rows", "columns", "count"), [(4, 4, 4), (4, 7, 4), (8, 8, 4)], ids=["pairs", "hard", "views"])
def test_the_average_and_the_ratings_equal_loops(rows, columns, count):
    torch.manual_seed(0)
    matrices = [torch.rand(rows, columns, dtype=torch.float64) for _ in range(3)]
    positives = [torch.rand(rows, dtype=torch.float64) for _ in matrices]
    run = SimpleNamespace(SAMPLE_KEY="images", device=torch.device("cpu"))
    guide = NormalisedGuide(Fixed([Rated(*both) for both in zip(matrices, positives, strict=True)], run))
    guide.offset = guide.offset.double()
    batch = Batch({"images": torch.arange(count)}, lambda network=None: None)
    for matrix, positive, offset in zip(matrices, positives, offset_after([m.tolist() for m in matrices], count), strict=True):
        rated = guide.rate(batch)
        torch.testing.assert_close(rated.negative_similarity, (matrix - offset) / (1 - offset))
        torch.testing.assert_close(rated.positive_similarity, (positive - offset) / (1 - offset))
    assert guide.measured() == {"offset of the guide": pytest.approx(offset)}


def test_pairs_of_a_guide_share_one_average():
    matrix = torch.tensor([[1.0, 0.2], [0.6, 1.0]])
    run = SimpleNamespace(SAMPLE_KEY="images", device=torch.device("cpu"))
    guide = NormalisedGuide(Fixed([Rated((matrix, matrix.mT), None)], run))
    first, second = guide.rate(Batch({"images": torch.arange(2)}, lambda network=None: None)).negative_similarity
    torch.testing.assert_close(first, (matrix - 0.4) / 0.6)
    assert torch.equal(first.mT, second)


def test_a_killed_run_goes_on_with_its_average():
    source = question_source(given=True, hard=1)
    whole, part, resumed = (started(source, settings_of(GUIDED, training={"epochs": 2, "updates": None})) for _ in range(3))
    whole.train_epoch()
    whole.train_epoch()
    part.train_epoch()
    resumed.load_state(*part.state())
    assert resumed.guide.offset == part.guide.offset
    row = resumed.train_epoch()
    assert {name: value.tolist() for name, value in resumed.weights().items()} == {
        name: value.tolist() for name, value in whole.weights().items()
    }
    assert row["offset of the guide"] == whole.guide.offset.item()
    assert 0 < whole.guide.offset.item() < 1
