"""Rows are put in order, however the order is found."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from trueneg.losses.ranking import SHORTEST_LINE, ascending, of_last_among_equals

PROPERTIES = settings(deadline=None, max_examples=60)


@pytest.fixture(autouse=True)
def one_thread():
    """Long lines are sorted by digits on one thread alone."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def draw(kind, rows, columns, dtype=torch.float32):
    generator = torch.Generator().manual_seed(rows)
    values = torch.randn(rows, columns, generator=generator, dtype=dtype)
    match kind:
        case "tied":
            return (4 * values).round() / 4
        case "crowded":  # all but one differ less than the leading digits can tell
            values = 1 + 1e-6 * values
            values[0, 0] = -100
        case "equal":
            values = torch.full_like(values, -0.5)
        case "infinite":
            values[::3, 1] = -math.inf
            values[-1, 2] = math.inf
        case "tiny":
            values = 1e-42 * values
        case "huge":
            values = 1e38 * values
    return values


@pytest.mark.parametrize("kind", ["random", "tied", "crowded", "equal", "infinite", "tiny", "huge"])
@pytest.mark.parametrize(("rows", "columns"), [(5, 7), (70, 1000), (300, 126), (9, 4000), (1, SHORTEST_LINE)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_rows_ascend_and_columns_say_where_their_values_come_from(kind, rows, columns, dtype):
    values = draw(kind, rows, columns, dtype)
    ordered, places = ascending(values)
    assert torch.equal(ordered, values.sort(dim=-1).values)
    assert torch.equal(values.gather(-1, places), ordered)
    assert torch.equal(places.sort(dim=-1).values, torch.arange(columns).expand(rows, -1))


def test_a_value_that_is_no_number_disturbs_no_other_row():
    values = draw("random", 70, 1000)
    values[3, 5] = math.nan
    ordered, places = ascending(values)
    others = torch.arange(70) != 3
    assert torch.equal(ordered[others], values[others].sort(dim=-1).values)
    assert torch.equal(places.sort(dim=-1).values, torch.arange(1000).expand(70, -1))


@PROPERTIES
@given(st.integers(0, 1000), st.integers(1, 5), st.integers(1, 9), st.integers(1, 6))
def test_equal_entries_share_the_value_of_the_last(seed, rows, columns, kinds):
    generator = torch.Generator().manual_seed(seed)
    ordered = torch.randint(kinds, (rows, columns), generator=generator).sort(-1).values
    values = torch.rand(rows, columns, generator=generator)
    expected = [
        [row_values[max(k for k, x in enumerate(row) if x == value)] for value in row]
        for row, row_values in zip(ordered.tolist(), values.tolist(), strict=True)
    ]
    shared = of_last_among_equals(values.clone(), ordered)
    torch.testing.assert_close(shared, torch.tensor(expected), rtol=0, atol=0)
    without_counting_ties = values.gather(-1, torch.searchsorted(ordered, ordered, right=True) - 1)
    torch.testing.assert_close(shared, without_counting_ties, rtol=0, atol=0)
