"""What users of the losses in loops of their own found wrong, impossible or refused, one test for
each.

The list was made with version dd248347: A, wrong without a message; B, accepted and then failing,
or refused without need; C, impossible.
"""

import inspect
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import get_type_hints

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import normalize

from tests.losses import by_the_book as book
from tests.losses.distributed_losses import Embedded
from tests.losses.forms import hardness, is_own_hard, logits_of, normal, of_views, plain, supervised
from tests.losses.two_processes import COUNT, REMEMBERING, results
from trueneg.class_probability import from_class_frequency
from trueneg.losses import (
    AdjustedInfoNCE,
    Bayesian,
    ContrastiveLoss,
    CrossModalLoss,
    Debiased,
    GlobalMass,
    Guided,
    HardNegative,
    HardnessWeighted,
    LearnedThresholds,
    LogitScale,
    LogQ,
    OpenClipLoss,
    Oracle,
    Quantile,
    Removed,
    Resampled,
    Reweighted,
    Sequence,
    Sigmoid,
    SupConLoss,
    Uncorrected,
    build,
)
from trueneg.losses.adapters import LabelledLoss, RankingLoss

ROOT = Path(__file__).parents[2]
T = 0.4
CHUNKS = [None, 2]


def two_views(count=4):
    return normal(count, 4), normal(count, 4, seed=1)


def hard_of_each(count=4, number=2):
    return normal(count, number, 4, seed=2)


def texts(*columns, ids=None):
    """Return features of columns of texts with these embeddings and one-word texts."""
    found = [{"model": each} for each in columns]
    for features, words in zip(found, ids or [], strict=False):
        features["input_ids"] = torch.tensor(words)[:, None]
        features["attention_mask"] = torch.ones(len(words), 1)
    return found


def ranking(estimator, scale=1 / T, **options):
    return RankingLoss(Embedded("model"), estimator, scale, **{"same_text": False} | options)


# A. Wrong without a message


@pytest.mark.parametrize("make", [np.array, torch.tensor])
def test_a1_unknown_labels_are_no_class_of_their_own(make):
    """Three quarters of the samples have no label; of the four others, three share a class. An
    unlabelled sample has their mean class probability.
    """
    labels = make([-1] * 6 + [0, 0, 5, 0] + [-1] * 6)
    eta = from_class_frequency(labels)
    assert eta[6:10].tolist() == [0.75, 0.75, 0.25, 0.75]
    assert eta[:6].tolist() == eta[10:].tolist() == [0.625] * 6
    assert from_class_frequency(make([-1, -7, 0, 1])).tolist() == [0.5] * 4
    with pytest.raises(ValueError, match="labels"):
        from_class_frequency(make([-1, -1]))


@pytest.mark.parametrize("where", ["inside", "outside"])
@pytest.mark.parametrize("name", REMEMBERING)
def test_a2_two_processes_remember_the_same_as_one(name, where):
    """Neither a broadcast of rank 0's buffers nor copies of each rank: every update counts."""
    of_ranks, alone = results()
    for key in (f"{name}, {where}, None", f"{name}, alone"):
        assert of_ranks[0][key] == of_ranks[1][key]
        assert of_ranks[0][key] == pytest.approx(alone[key], rel=1e-7, abs=1e-9)


UNUSED = [
    (Debiased(0.1), "labels", torch.zeros(4).long()),
    (Uncorrected(), "class_probability", 0.1),
    (Uncorrected(), "same_class", torch.ones(4, 4).bool()),
    (Uncorrected(), "negative_similarity", torch.zeros(4, 4)),
    (Removed(), "positive_similarity", torch.zeros(4)),
    (Oracle(), "sampling_probability", torch.ones(4)),
    (Quantile(0.1), "index", torch.arange(4)),
    (Sigmoid(), "labels", torch.zeros(4).long()),
]


@pytest.mark.parametrize(("estimator", "name", "value"), UNUSED, ids=lambda each: str(each)[:20])
def test_a3_facts_that_are_not_used_are_refused_by_name_and_checked_when_accepted(
    estimator, name, value
):
    first, second = (normalize(each, dim=-1) for each in two_views())
    needed = {}
    if isinstance(estimator, Oracle):
        needed = {"labels": torch.arange(4)}
    if isinstance(estimator, Removed):
        needed = {"negative_similarity": torch.zeros(4, 4)}
    views, pairs = ContrastiveLoss(estimator, T), CrossModalLoss(estimator)
    openclip = OpenClipLoss(estimator)
    calls = {
        "views": lambda **known: views(first, second, **known),
        "matrix": lambda **known: pairs(first @ second.mT, 3.0, **known),
        "features": lambda **known: pairs.of_features(first, second, 3.0, **known).loss,
        "openclip": lambda **known: openclip(first, second, torch.tensor(3.0), **known),
    }
    wrong = 5.0 if name == "class_probability" else torch.zeros(3, 2)
    for call in calls.values():
        expected = call(**needed)
        with pytest.raises(ValueError, match=name):
            call(**{name: value}, **needed)
        with pytest.raises(ValueError, match=name):
            call(**{name: wrong}, unused="ignore", **needed)
        torch.testing.assert_close(call(**{name: value}, unused="ignore", **needed), expected)
        with pytest.raises(ValueError, match="unused"):
            call(unused="warn", **needed)


def test_a3_labels_in_third_place_are_not_taken_as_class_probabilities():
    first, second = two_views()
    with pytest.raises(TypeError):
        ContrastiveLoss(Debiased(), T)(first, second, torch.zeros(4))
    with pytest.raises(ValueError, match=r"z1|z2"):
        ContrastiveLoss(Debiased(0.1), T)(first, torch.zeros(4))
    with pytest.raises(ValueError, match="labels"):
        ranking(Debiased(0.1))(texts(first, second), torch.zeros(4).long())
    ignoring = ranking(Debiased(0.1), unused="ignore")
    expected = ranking(Debiased(0.1))(texts(first, second))
    torch.testing.assert_close(ignoring(texts(first, second), torch.zeros(4).long()), expected)


@pytest.mark.parametrize("by", ["text", "group"])
@pytest.mark.parametrize("contrast", ["documents", "joint", "symmetric"])
def test_a4_rows_of_one_query_do_not_repel_its_other_documents(by, contrast):
    """(q, d1), (q, d2), (q2, d3): neither d2 for the first row, nor d1 for the second."""
    documents = normal(3, 4, seed=1)
    queries = normal(3, 4).detach()
    queries[1] = queries[0]
    queries = queries.requires_grad_()
    columns = texts(queries, documents, ids=[[1, 1, 2], [3, 4, 5]])
    if by == "text":
        actual = ranking(Uncorrected(), contrast=contrast, same_text=True)(columns)
    else:
        actual = ranking(Uncorrected(), contrast=contrast)(columns, group=torch.tensor([7, 7, 0]))

    def u(one, other):
        return book.cosine(one, other) / T

    q, d = queries, documents
    others = {0: [2], 1: [2], 2: [0, 1]}
    losses = []
    for i, rest in others.items():
        positive = u(q[i], d[i])
        near = [u(q[i], d[j]) for j in rest]
        if contrast == "joint":
            near += [u(q[i], q[j]) for j in rest] + [u(d[i], d[j]) for j in rest]
        losses.append(book.anchor_loss(positive, book.exp_sum(near)))
        if contrast == "symmetric":
            back = [u(d[i], q[j]) for j in rest]
            losses.append(book.anchor_loss(positive, book.exp_sum(back)))
    book.assert_same(actual, sum(losses) / len(losses), [queries, documents])


def test_a5_a_guide_can_exempt_hard_negatives_and_its_share_of_them_is_known():
    """The positive has similarity 0.6, and the curated hard negative 0.9."""
    anchors = torch.tensor([[1.0, 0.0, 0.0]] * 2)
    positives = torch.tensor([[0.6, 0.8, 0.0], [0.6, 0.0, 0.8]])
    hard = torch.tensor([[0.9, 0.0, (1 - 0.81) ** 0.5]] * 2)
    columns = texts(anchors, positives, hard)
    eaten = ranking(Guided(), 20.0)
    assert eaten(columns) < 0.8  # of two positives alone
    assert eaten.share_of_hard_removed == 1
    kept = ranking(Guided(scope="in_batch"), 20.0)
    assert kept(columns) > 6.0
    assert kept.share_of_hard_removed == 0


def test_a6_cosines_are_not_taken_as_averages():
    loss = build({"name": "global", "samples": 10})
    first, second = two_views()
    with pytest.raises(ValueError, match="positive_similarity"):
        loss(first, second, positive_similarity=torch.rand(4), index=torch.arange(4))
    with pytest.raises(ValueError, match="index"):
        loss(first, second)


def test_a7_a_queue_counts_once_in_two_processes():
    """Beside the samples of both, and their hard negatives; values and gradients are one
    process's.
    """
    of_ranks, alone = results()
    for name, expected in alone["queues"].items():
        for found in of_ranks:
            assert found["queues"][name]["columns"] == expected["columns"]
            assert found["queues"][name]["values"] == pytest.approx(expected["values"], rel=1e-7)
    columns = alone["queues"]["views, None"]["columns"]
    assert columns == [2 * COUNT + 6]


def test_a8_negative_targets_are_refused():
    first, second = two_views(2)
    targets = torch.tensor([[1.5, -0.5], [0.0, 1.0]])
    with pytest.raises(ValueError, match=r"targets.*-0.5"):
        ContrastiveLoss(Uncorrected(), T)(first, second, targets=targets)
    with pytest.raises(ValueError, match=r"targets.*-0.5"):
        CrossModalLoss(Uncorrected(), "text")(first @ second.mT, 3.0, targets=targets)


# B. Accepted, then failing; or refused without need

NEEDED = {
    "cl": (Uncorrected, set()),
    "dcl": (lambda: Debiased(0.1), set()),
    "hcl": (lambda: HardNegative(1.0, 0.1), set()),
    "bcl": (lambda: Bayesian(0.8, 1.0, 0.1), set()),
    "adnce": (AdjustedInfoNCE, set()),
    "quantile": (lambda: Quantile(0.3), set()),
    "hardness": (HardnessWeighted, set()),
    "oracle": (Oracle, {"labels"}),
    "guided": (Guided, {"negative_similarity", "positive_similarity"}),
    "remove": (Removed, {"negative_similarity"}),
    "reweight": (Reweighted, {"negative_similarity"}),
    "resample": (lambda: Resampled(3), {"negative_similarity"}),
    "sigmoid": (Sigmoid, set()),
    "sigmoid of labels": (lambda: Sigmoid(positives="labels"), {"labels"}),
    "global": (lambda: GlobalMass(10), {"index"}),
    "glofnd": (lambda: LearnedThresholds(10, directions=2), {"index"}),
    "logq": (LogQ, {"sampling_probability"}),
    "sequence": (lambda: Sequence([Oracle(), Debiased(0.1)]), {"labels"}),
}


def facts_of(names, count=4):
    found = {
        "labels": torch.arange(count) % 2,
        "negative_similarity": torch.rand(count, count, generator=torch.Generator().manual_seed(3)),
        "positive_similarity": torch.rand(count, generator=torch.Generator().manual_seed(4)),
        "index": torch.arange(count),
        "sampling_probability": torch.full((count,), 0.1),
    }
    return {name: found[name] for name in names}


@pytest.mark.parametrize("name", NEEDED)
def test_b1_openclips_call_takes_what_each_estimator_needs(name):
    make, needs = NEEDED[name]
    images, texts_ = (normalize(each, dim=-1).detach().requires_grad_() for each in two_views())
    scale = torch.tensor(3.0, requires_grad=True)
    loss, other = OpenClipLoss(make()).double(), CrossModalLoss(make()).double()
    torch.manual_seed(0)
    actual = loss(images, texts_, scale, **facts_of(needs))
    torch.manual_seed(0)
    expected = other.of_features(texts_, images, scale, **facts_of(needs)).loss
    book.assert_same(actual, expected, [images, texts_, scale])
    assert any(each.abs().sum() > 0 for each in book.gradients(actual, [images, texts_]))
    if needs:
        with pytest.raises(ValueError, match="|".join(needs)):
            loss(images, texts_, scale)


def test_b1_openclips_logit_bias_is_that_of_the_sigmoid_loss():
    library = pytest.importorskip("open_clip.loss", reason="compares with OpenCLIP's own loss")
    images, texts_ = (normalize(each, dim=-1).detach().requires_grad_() for each in two_views())
    scale, bias = (
        torch.tensor(each, dtype=torch.float64, requires_grad=True) for each in (3.0, -1.5)
    )
    expected = library.SigLipLoss()(images, texts_, scale, bias)
    for chunk_size in CHUNKS:
        loss = OpenClipLoss(Sigmoid(), chunk_size=chunk_size)
        given = images, texts_, scale, bias
        book.assert_same(loss(*given), expected, list(given))
        named = loss(images, texts_, logit_scale=scale, logit_bias=bias, output_dict=True)
        torch.testing.assert_close(named["contrastive_loss"], expected)
    own = OpenClipLoss(Sigmoid(bias=-1.5))(images, texts_, scale)
    torch.testing.assert_close(own, expected)
    softmax = OpenClipLoss(Uncorrected())
    torch.testing.assert_close(softmax(images, texts_, scale, bias), softmax(images, texts_, scale))


@pytest.mark.parametrize("make", [GlobalMass, LearnedThresholds])
def test_b1_texts_with_averages_take_an_index(make):
    first, second = two_views()
    loss = ranking(make(10))
    value = loss(texts(first, second), index=torch.arange(4))
    assert value.isfinite()
    with pytest.raises(ValueError, match="index"):
        loss(texts(first, second))


@pytest.mark.parametrize("chunk_size", CHUNKS)
@pytest.mark.parametrize("name", NEEDED)
def test_b2_a_batch_of_one_is_a_zero_loss_with_a_gradient(name, chunk_size):
    """But for the sigmoid loss, which has a value for one pair."""
    make, needs = NEEDED[name]
    first, second = two_views(1)
    known, options = facts_of(needs, 1), {"chunk_size": chunk_size}
    unit = [normalize(each, dim=-1) for each in (first, second)]
    losses = [
        ContrastiveLoss(make(), 1.0, **options).double()(first, second, **known),
        CrossModalLoss(make(), **options).double().of_features(*unit, 1.0, **known).loss,
        CrossModalLoss(make(), **options).double()(unit[0] @ unit[1].mT, 1.0, **known),
        OpenClipLoss(make(), **options)(*unit, torch.tensor(1.0), **known),
    ]
    # texts are compared by the model
    known = {name: each for name, each in known.items() if not name.endswith("similarity")}
    losses.append(ranking(make(), 1.0, **options)(texts(first, second), **known))
    expected = torch.zeros((), dtype=torch.float64)
    if name.startswith("sigmoid"):
        expected = book.sigmoid(book.cosine(first[0], second[0]), [], [], -10.0)
    for loss in losses:
        torch.testing.assert_close(loss, expected, check_dtype=False)
        found = book.gradients(loss, [first, second])
        wanted = torch.autograd.grad(
            expected + 0 * first.sum(), [first, second], retain_graph=True, materialize_grads=True
        )
        torch.testing.assert_close(found, list(wanted))


def test_b2_a_batch_of_one_of_supcon_and_with_decoupling_is_zero():
    first, second = two_views(1)
    for loss in (
        SupConLoss(T)(first, second, labels=torch.tensor([3])),
        ContrastiveLoss(Uncorrected(), T, decoupled=True)(first, second),
        ContrastiveLoss(Uncorrected(), T, reduction="none")(first, second).sum(),
        LabelledLoss(Debiased(0.1), T)(torch.cat((first, second)), torch.zeros(2)),
    ):
        assert loss == 0
        assert all(each.eq(0).all() for each in book.gradients(loss, [first, second]))


def test_b3_no_parameter_is_a_scalar_and_scalars_load():
    """FSDP2 shards the first dimension of each parameter; released CLIP models hold scalars."""
    for module in (Sigmoid(), LogitScale(), CrossModalLoss(Sigmoid()), Sigmoid(learned_bias=False)):
        assert all(each.dim() > 0 for each in module.parameters())
    sigmoid, scale = Sigmoid(), LogitScale()
    sigmoid.load_state_dict({"bias": torch.tensor(-5.0)})
    scale.load_state_dict({"log_scale": torch.tensor(2.0)})
    assert sigmoid.bias.tolist() == [-5.0]
    assert scale().item() == pytest.approx(np.exp(2.0), rel=1e-6)
    assert scale().dim() == 0
    loss = OpenClipLoss(Sigmoid())
    loss.load_state_dict({"estimator.bias": torch.tensor(-3.0)})
    assert loss.estimator.bias.tolist() == [-3.0]
    loss.load_state_dict(OpenClipLoss(Sigmoid(-2.0)).state_dict())
    assert loss.estimator.bias.tolist() == [-2.0]


ALONE = """
import importlib.abc, runpy, sys

class Missing(importlib.abc.MetaPathFinder):
    # what torch needs, but not numpy
    kept = {{"torch", "torchgen", "functorch", "trueneg", "typing_extensions", "filelock",
             "sympy", "mpmath", "networkx", "jinja2", "markupsafe", "fsspec", "setuptools"}}
    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        if top in self.kept or top in sys.stdlib_module_names or top.startswith("_"):
            return None
        raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Missing())
{code}
"""


def alone(code):
    """Run code where nothing but PyTorch is installed."""
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-c", ALONE.format(code=code)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_b4_class_probabilities_of_tensors_need_pytorch_alone():
    finished = alone(
        "import torch\n"
        "from trueneg.class_probability import from_class_frequency, from_log_likelihood\n"
        "from trueneg.losses import ContrastiveLoss, Debiased\n"
        "eta = from_class_frequency(torch.tensor([0, 0, -1, 1]))\n"
        "print([round(each, 3) for each in eta.tolist()])\n"
        "print(round(from_log_likelihood(torch.tensor([0.0])).item(), 3))\n"
        "views = torch.eye(4), torch.eye(4)\n"
        "print(ContrastiveLoss(Debiased())(*views, class_probability=eta).item() > 0)\n"
        "print('numpy' in sys.modules)"
    )
    assert finished.returncode == 0, finished.stderr
    assert finished.stdout.splitlines() == ["[0.667, 0.667, 0.556, 0.333]", "0.2", "True", "False"]


def test_b4_class_probabilities_of_numbers_say_that_numpy_is_missing():
    finished = alone(
        "from trueneg.class_probability import from_log_likelihood\nfrom_log_likelihood(-1.0)"
    )
    *_, said = finished.stderr.splitlines()
    assert re.search("numpy is missing.*float.*tensor.*pip install numpy", said)


def test_b4_the_command_says_what_is_missing_with_pytorch_alone():
    finished = alone("sys.argv = ['trueneg']\nrunpy.run_module('trueneg', run_name='__main__')")
    assert finished.returncode not in (0, None)
    assert "Traceback" not in finished.stderr
    assert re.search(r"missing.*pip install", finished.stderr, re.DOTALL)


def test_b4_the_smallest_version_of_pytorch_has_buffers():
    """torch.nn.Buffer came with version 2.5."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (needed,) = project["dependencies"]
    major, minor = map(int, re.fullmatch(r"torch>=(\d+)\.(\d+)", needed).groups())
    assert (major, minor) >= (2, 5)


@pytest.fixture
def group_of_one(tmp_path):
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{tmp_path}/meeting", rank=0, world_size=1
    )
    yield
    torch.distributed.destroy_process_group()


@pytest.mark.parametrize("kind", ["views", "openclip"])
def test_b5_a_loss_that_gathers_is_one_compiled_graph(group_of_one, kind):
    first, second = (each.detach().float().requires_grad_() for each in two_views())
    if kind == "views":
        loss = ContrastiveLoss(Debiased(0.1), T, gather_distributed=True)
        given, plainly = (first, second), ContrastiveLoss(Debiased(0.1), T)
    else:
        loss = OpenClipLoss(Debiased(0.1), gather_distributed=True)
        plainly = OpenClipLoss(Debiased(0.1))
        given = *(normalize(each, dim=-1) for each in (first, second)), torch.tensor(3.0)
    torch.compiler.reset()
    found = torch.compile(loss, fullgraph=True, backend="eager")(*given)
    book.assert_same(found, plainly(*given), [first, second], 1e-5)


def test_features_with_a_graph_are_gathered_without_gradients(group_of_one):
    first, second = (each.requires_grad_() * 1 for each in two_views())
    values = []
    for gathers in (True, False):
        loss = CrossModalLoss(Debiased(0.1), gather_distributed=gathers)
        with torch.no_grad():
            values.append(loss.of_features(first, second, 3.0).loss)
    torch.testing.assert_close(*values)


def test_b6_averages_are_public_and_kept_by_the_loss():
    """As LibAUC's: loss(z1, z2, index); once a call, and not in evaluation."""
    import trueneg.losses

    assert "GlobalMass" in trueneg.losses.__all__
    for chunk_size in CHUNKS:
        loss = ContrastiveLoss(GlobalMass(10, rate=0.5), T, chunk_size=chunk_size).double()
        index = torch.arange(4)
        loss(*two_views(), index=index).backward()
        first = loss.estimator.log_averages[0, :4].exp()
        other = [normal(4, 4, seed=seed) for seed in (5, 6)]
        loss(*other, index=index).backward()
        fresh = ContrastiveLoss(GlobalMass(10, rate=0.5), T).double()
        fresh(*other, index=index)
        second = fresh.estimator.log_averages[0, :4].exp()
        found = loss.estimator.log_averages[0, :4].exp()
        torch.testing.assert_close(found, (first + second) / 2)
        loss.eval()
        loss(*two_views(), index=index).backward()
        assert torch.equal(loss.estimator.log_averages[0, :4].exp(), found)
    again = ContrastiveLoss(GlobalMass(10, rate=0.5), T).double()
    again.load_state_dict(loss.state_dict())
    given = two_views()
    torch.testing.assert_close(again.eval()(*given, index=index), loss(*given, index=index))


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: Debiased("0.1"), "class_probability"),
        (lambda: HardNegative(1.0, "0.1"), "class_probability"),
        (lambda: Bayesian(class_probability="0.1"), "class_probability"),
        (lambda: Debiased([0.1, 0.2]), "class_probability"),
        (lambda: ContrastiveLoss(Uncorrected(), "0.5"), "temperature"),
        (lambda: ContrastiveLoss(Uncorrected(), None), "temperature"),
        (lambda: SupConLoss("0.5"), "temperature"),
        (lambda: LabelledLoss(Uncorrected(), "0.5"), "temperature"),
        (lambda: RankingLoss(Embedded("model"), Uncorrected(), "20"), "scale"),
        (lambda: CrossModalLoss(Uncorrected())(torch.eye(3), "3"), "logit_scale"),
        (lambda: ContrastiveLoss(Uncorrected(), chunk_size=2.0), "chunk_size"),
        (lambda: ContrastiveLoss(Uncorrected(), chunk_size="2"), "chunk_size"),
        (lambda: CrossModalLoss(Uncorrected(), chunk_size=0.5), "chunk_size"),
        (
            lambda: ContrastiveLoss(Debiased())(
                torch.eye(3), torch.eye(3), class_probability="0.1"
            ),
            "class_probability",
        ),
    ],
)
def test_b7_wrong_types_are_named(make, name):
    with pytest.raises(ValueError, match=rf"\b{name}\b"):
        make()


def test_b7_the_share_at_the_bound_exists_before_the_first_call():
    """Two equal views are nearer than any bound allows."""
    views = torch.eye(4).double()
    for loss, given in (
        (ContrastiveLoss(Debiased(0.5), T), (views, views)),
        (CrossModalLoss(Debiased(0.5)), (views, 1 / T)),
        (OpenClipLoss(Debiased(0.5)), (views, views, torch.tensor(1 / T))),
        (ranking(Debiased(0.5)), (texts(views, views),)),
    ):
        assert loss.share_at_bound.isnan()
        loss(*given)
        assert loss.share_at_bound == 1
    loss = ContrastiveLoss(Uncorrected(), T)
    loss(views, views)
    assert loss.share_at_bound == 0


def gist(anchors, positives, guides, also_among):
    """Return GISTEmbedLoss by a loop; a text is no negative of itself."""
    losses = []
    rated = [book.cosine(*pair) for pair in zip(*guides, strict=True)]
    for i, anchor in enumerate(anchors):
        near = [(anchor, positives[j], guides[0][i], guides[1][j]) for j in range(len(anchors))]
        if also_among:
            near += [(anchor, anchors[j], guides[0][i], guides[0][j]) for j in range(len(anchors))]
            pairs = range(len(anchors))
            near += [(positives[i], positives[j], guides[1][i], guides[1][j]) for j in pairs]
        u = [
            book.cosine(one, other) / T
            for place, (one, other, of_one, of_other) in enumerate(near)
            if place % len(anchors) != i and book.cosine(of_one, of_other) <= rated[i]
        ]
        losses.append(book.anchor_loss(book.cosine(anchor, positives[i]) / T, book.exp_sum(u)))
    return sum(losses) / len(losses)


@pytest.mark.parametrize("contrast", ["documents", "joint"])
def test_b8_the_default_of_gist_embed_loss_is_the_joint_contrast(contrast):
    first, second = two_views()
    guides = normal(4, 3, seed=8).detach(), normal(4, 3, seed=9).detach()
    columns = texts(first, second)
    for features, guide in zip(columns, guides, strict=True):
        features["guide"] = guide
    loss = ranking(Guided(), guide=Embedded("guide"), contrast=contrast)
    expected = gist(first, second, guides, also_among=contrast == "joint")
    book.assert_same(loss(columns), expected, [first, second])
    told = re.sub(r"\s+", " ", RankingLoss.__doc__)
    assert '``contrast="joint"`` is ``GISTEmbedLoss``' in told


# C. What was impossible


def test_c_eta_or_oracle_from_partial_labels_in_two_views():
    views, labels = two_views(), [0, -1, 0, 1]
    actual = ContrastiveLoss(Oracle(), T)(*views, labels=torch.tensor(labels))
    known = [0, 9, 0, 1]  # an unknown class is nobody's
    expected = of_views(
        views, T, plain, keeps=lambda v, i, column: known[i] != known[column.sample]
    )
    book.assert_same(actual, expected.mean(), list(views))
    eta = from_class_frequency(torch.tensor(labels))
    assert eta.tolist() == pytest.approx([2 / 3, 5 / 9, 2 / 3, 1 / 3])
    small = eta / 4
    actual = ContrastiveLoss(Debiased(), T)(*views, class_probability=small)

    def mass(i, positives, negatives):
        return book.debiased(positives, logits_of(negatives), small[i], T)

    book.assert_same(actual, of_views(views, T, mass).mean(), list(views))


@pytest.mark.parametrize("chunk_size", CHUNKS)
def test_c_more_than_two_views(chunk_size):
    """As multi-crop: every other view is a positive."""
    views = [normal(3, 4, seed=seed) for seed in range(4)]

    def mass(i, positives, negatives):
        assert (len(positives), len(negatives)) == (3, 8)
        return book.debiased(positives, logits_of(negatives), 0.1, T)

    loss = ContrastiveLoss(Debiased(0.1), T, chunk_size=chunk_size)
    expected = of_views(views, T, mass).mean()
    book.assert_same(loss(views), expected, views)
    book.assert_same(loss(torch.stack(views)), expected, views)


def test_c_embeddings_and_labels():
    """As pytorch-metric-learning calls its losses."""
    embeddings, labels = normal(5, 4), [0, 0, 1, 1, 1]
    losses = []
    for i, anchor in enumerate(embeddings):
        u = [book.cosine(anchor, other) / T for other in embeddings]
        mass = book.exp_sum(u[j] for j in range(5) if labels[j] != labels[i])
        losses += [
            book.anchor_loss(u[j], mass) for j in range(5) if j != i and labels[j] == labels[i]
        ]
    actual = LabelledLoss(Uncorrected(), temperature=T)(embeddings, torch.tensor(labels))
    book.assert_same(actual, sum(losses) / len(losses), [embeddings])


def test_c_a_queue_of_negatives_in_several_processes():
    of_ranks, alone = results()
    for name in ("views, None", "pairs, 3", "supcon, None"):
        found = [each["queues"][name]["values"] for each in (*of_ranks, alone)]
        assert found[0] == found[1] == pytest.approx(found[2], rel=1e-7)


def test_c_hard_negatives_exclude_and_same_class_in_two_views():
    views, hard = two_views(), hard_of_each()
    exclude = torch.zeros(4, 12, dtype=torch.bool)
    exclude[0, 1] = exclude[2, 9] = exclude[3, 3] = True
    loss = ContrastiveLoss(Uncorrected(), T)
    actual = loss(*views, hard_negatives=hard, exclude=exclude)
    expected = of_views(
        views, T, plain, hard, keeps=lambda v, i, column: not exclude[i, column.sample]
    )
    book.assert_same(actual, expected.mean(), [*views, hard])
    actual = ContrastiveLoss(Oracle(), T)(*views, hard_negatives=hard, same_class=exclude)
    book.assert_same(actual, expected.mean(), [*views, hard])


def test_c_several_positives_per_query_by_an_id():
    first, second = two_views()
    actual = ranking(Uncorrected())(texts(first, second), group=torch.tensor([1, 0, 1, -1]))
    near = {0: [1, 3], 1: [0, 2, 3], 2: [1, 3], 3: [0, 1, 2]}
    losses = [
        book.anchor_loss(
            book.cosine(first[i], second[i]) / T,
            book.exp_sum(book.cosine(first[i], second[j]) / T for j in rest),
        )
        for i, rest in near.items()
    ]
    book.assert_same(actual, sum(losses) / 4, [first, second])
    of_features = CrossModalLoss(Uncorrected(), "text").of_features
    unit = [normalize(each, dim=-1) for each in (first, second)]
    pairs = of_features(*unit, 1 / T, same_query=torch.tensor([1, 0, 1, -1])).loss
    book.assert_same(pairs, sum(losses) / 4, [first, second])


SCOPES = {
    "all": lambda i, column: True,
    "in_batch": lambda i, column: not is_own_hard(i, column),
    "hard": is_own_hard,
}


@pytest.mark.parametrize("scope", SCOPES)
def test_c_which_negatives_a_correction_looks_at(scope):
    views, hard, labels = two_views(), hard_of_each(), [0, 1, 0, 1] + [0, 1] * 4
    loss = ContrastiveLoss(Oracle(scope=scope), T)
    actual = loss(*views, hard_negatives=hard, labels=torch.tensor(labels))

    def keeps(v, i, column):
        return labels[i] != labels[column.sample] or not SCOPES[scope](i, column)

    book.assert_same(actual, of_views(views, T, plain, hard, keeps=keeps).mean(), [*views, hard])


@pytest.mark.parametrize("kind", ["views", "texts"])
def test_c_hard_negatives_alone(kind):
    views, hard = two_views(), hard_of_each()
    if kind == "views":
        actual = ContrastiveLoss(Uncorrected(), T, negatives="hard")(*views, hard_negatives=hard)
        given = views
    else:
        columns = texts(*views, *hard.unbind(1))
        actual = ranking(Uncorrected(), negatives="hard")(columns)
        given = views[:1]
    losses = []
    for view in given:
        for i in range(4):
            near = [book.cosine(view[i], each) / T for each in hard[i]]
            positive = book.cosine(views[0][i], views[1][i]) / T
            losses.append(book.anchor_loss(positive, book.exp_sum(near)))
    book.assert_same(actual, sum(losses) / len(losses), [*views, hard])


def test_c_a_margin_relative_to_the_positive():
    """A negative counts up to 95 % of the positive's similarity."""
    first, second = two_views()
    rated = torch.tensor([0.8, 0.77, 0.75, 0.2], dtype=torch.float64)  # of each positive
    columns = texts(first, second)
    columns[0]["guide"] = torch.tensor([[1.0, 0.0]] * 4, dtype=torch.float64)
    columns[1]["guide"] = torch.stack((rated, (1 - rated**2).sqrt()), dim=1)
    loss = ranking(Guided(0.05, strategy="relative"), guide=Embedded("guide"))
    kept = {0: [2, 3], 1: [3], 2: [3], 3: []}  # 0.77 is above 0.76
    losses = [
        book.anchor_loss(
            book.cosine(first[i], second[i]) / T,
            book.exp_sum(book.cosine(first[i], second[j]) / T for j in rest),
        )
        for i, rest in kept.items()
    ]
    book.assert_same(loss(columns), sum(losses) / 4, [first, second])


@pytest.mark.parametrize("masked", [False, True])
def test_c_hardness_weighting_without_gradient_and_after_a_mask(masked):
    """LLaVE's α for negatives in the batch."""
    views, labels = two_views(), torch.tensor([0, 1, 0, 2])
    weight = HardnessWeighted(alpha=9.0)
    estimator = Sequence([Oracle(), weight]) if masked else weight
    known = {"labels": labels} if masked else {}
    actual = ContrastiveLoss(estimator, T)(*views, **known)

    def keeps(v, i, column):
        return not masked or labels[i] != labels[column.sample]

    expected = of_views(
        views, T, lambda i, positives, negatives: hardness(negatives, T, 9.0), keeps=keeps
    )
    book.assert_same(actual, expected.mean(), list(views))


def test_c_log_q_correction():
    users, items = normal(4, 4), normal(4, 4, seed=1)
    q = torch.tensor([0.5, 0.1, 0.01, 0.2], dtype=torch.float64)
    loss = CrossModalLoss(LogQ(), "text")
    actual = loss.of_features(users, items, 1.0, sampling_probability=q).loss
    corrected = users @ items.mT - q.log()
    expected = nn.functional.cross_entropy(corrected, torch.arange(4))
    book.assert_same(actual, expected, [users, items])


def test_c_supcon_as_a_class_and_by_name():
    views, labels = two_views(), [0, 1, 0, -1]
    expected = supervised(views, labels, T).mean()
    for loss in (SupConLoss(T), build({"name": "supcon"}, temperature=T)):
        book.assert_same(loss(*views, labels=torch.tensor(labels)), expected, list(views))


@pytest.mark.parametrize("chunk_size", CHUNKS)
def test_c_values_per_anchor(chunk_size):
    views = two_views()
    options = {"reduction": "none", "chunk_size": chunk_size}
    values = ContrastiveLoss(Uncorrected(), T, **options)(*views)
    torch.testing.assert_close(values, of_views(views, T, plain))
    columns = texts(*views)
    assert ranking(Uncorrected(), **options)(columns).shape == (4,)
    mean = ranking(Uncorrected(), chunk_size=chunk_size)(columns)
    torch.testing.assert_close(ranking(Uncorrected(), **options)(columns).mean(), mean)
    with pytest.raises(ValueError, match="reduction"):
        ContrastiveLoss(Uncorrected(), reduction="sum")


def test_c_an_editor_shows_every_argument():
    """The losses share the names of facts, which follow the embeddings by name only."""
    shared = {"class_probability", "labels", "same_class", "exclude", "targets", "index"}
    own = {
        ContrastiveLoss.forward: {"z1", "z2", "hard_negatives", "queue", "same_query", "unused"},
        CrossModalLoss.forward: {"similarity", "logit_scale", "same_query", "unused"},
        CrossModalLoss.of_features: {"hard_negatives", "queue", "logit_bias", "unused"},
        OpenClipLoss.forward: {"image_features", "logit_bias", "hard_negatives", "queue"},
        RankingLoss.forward: {"sentence_features", "group", "sampling_probability"},
    }
    for call, names in own.items():
        parameters = inspect.signature(call).parameters
        assert names | shared <= set(parameters)
        kinds = {each.kind for each in parameters.values()}
        assert not kinds & {inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL}
        for name in shared - {"labels", "class_probability"}:
            assert parameters[name].kind is inspect.Parameter.KEYWORD_ONLY
    returned = str(get_type_hints(build)["return"])
    assert "ContrastiveLoss" in returned
    assert "CrossModalLoss" in returned
