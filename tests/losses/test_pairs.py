"""What is dropped, and what is kept, is what indices say; also for gradients, and theirs."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from trueneg.losses.pairs import negatives_of_pairs, without_own

PROPERTIES = settings(deadline=None, max_examples=60)


@st.composite
def blocks(draw):
    samples = draw(st.integers(2, 6))
    rows = draw(st.integers(1, samples))
    own = draw(st.integers(0, samples - rows))
    return draw(st.integers(1, 3)), rows, samples, draw(st.integers(1, 3)), own


@PROPERTIES
@given(blocks())
def test_every_row_keeps_all_but_its_own_samples(shape):
    sides, rows, samples, kinds, own = shape
    block = torch.arange(sides * rows * kinds * samples).view(sides, rows, kinds * samples)
    kept = without_own(block, own, kinds)
    for side in range(sides):
        for row in range(rows):
            entries = block[side, row].view(kinds, samples).tolist()
            expected = [entry for kind in entries for j, entry in enumerate(kind) if j != own + row]
            assert kept[side, row].tolist() == expected


@settings(deadline=None, max_examples=15)
@given(blocks())
def test_its_gradient_and_the_gradient_of_that_are_right(shape):
    sides, rows, samples, kinds, own = shape
    block = torch.randn(sides, rows, kinds * samples, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: without_own(x, own, kinds), block)
    assert torch.autograd.gradgradcheck(lambda x: without_own(x, own, kinds), block)


def test_a_block_need_not_be_contiguous():
    block = torch.arange(40).view(1, 8, 5)[:, 2:6].mT.contiguous().mT
    assert torch.equal(without_own(block, 1), without_own(block.contiguous(), 1))


@pytest.mark.parametrize("transposed", [(False,), (True,), (False, True)])
def test_pairs_of_a_matrix_are_those_of_its_rows_and_columns(transposed):
    matrix = torch.randn(4, 4, dtype=torch.float64, requires_grad=True)
    negatives, positive = negatives_of_pairs(matrix, transposed)
    rows = torch.cat([without_own((matrix.mT if turned else matrix)[None])[0] for turned in transposed])
    assert torch.equal(negatives, rows)
    assert torch.equal(positive, matrix.diagonal().repeat(len(transposed)))
    assert torch.autograd.gradcheck(lambda x: negatives_of_pairs(x, transposed), matrix)
    assert torch.autograd.gradgradcheck(lambda x: negatives_of_pairs(x, transposed), matrix)
