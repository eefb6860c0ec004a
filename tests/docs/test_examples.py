"""The example programs. text_embeddings: its parts against plain loops, its errors, and a run from
end to end with a tiny model; simclr: it learns.
"""

import importlib.util
import re
import runpy
import sys
from collections import Counter, defaultdict

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.stats import ttest_rel

from tests.projects import ROOT
from trueneg.errors import UserError
from trueneg.losses import Debiased, Guided, Uncorrected
from trueneg.losses.adapters import RankingLoss
from trueneg.text.tokenizing import train_tokenizer

PROGRAM = ROOT / "examples/text_embeddings/train.py"


@pytest.fixture(scope="module")
def example():
    """The program as a module."""
    pytest.importorskip(
        "sentence_transformers", "6", reason="the example trains with sentence-transformers"
    )
    for needed in ("datasets", "accelerate"):
        pytest.importorskip(needed, reason="sentence-transformers' trainer needs it")
    spec = importlib.util.spec_from_file_location("text_embeddings", PROGRAM)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def made_up(labels=6, per_label=12, seed=0):
    """Different texts of words that all labels share, and two words of the label's own."""
    draw = np.random.default_rng(seed)
    rows = [
        (
            " ".join(
                draw.permutation(
                    [
                        f"n{number}",
                        *draw.choice(list("abcdefgh"), 5),
                        *draw.choice([f"x{label}", f"y{label}"], 2),
                    ]
                )
            ),
            label,
        )
        for label in range(labels)
        for number in range(per_label)
    ]
    return pd.DataFrame(rows, columns=["question", "intent"]).astype(str)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """The folder of a BERT with two layers and random weights."""
    library = pytest.importorskip("sentence_transformers")
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
    from transformers import BertConfig, BertModel

    folder = str(tmp_path_factory.mktemp("model"))
    torch.manual_seed(0)
    sizes = {
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 64,
    }
    BertModel(
        BertConfig(vocab_size=300, max_position_embeddings=40, pad_token_id=0, **sizes)
    ).save_pretrained(folder)
    train_tokenizer(list(made_up()["question"]), 300, 512).save_pretrained(folder)
    encoder = library.SentenceTransformer(
        modules=[Transformer(folder), Pooling(32, "mean")], device="cpu"
    )
    encoder.save(folder, create_model_card=False)
    return folder


def table_of(tmp_path, rows, columns="text,label"):
    path = tmp_path / "data.csv"
    path.write_text("\n".join([columns, *rows]) + "\n")
    return path


def test_rows_left_out_are_counted(example, tmp_path, capsys):
    rows = [
        "One,a",
        "two,a",
        " one ,b",
        ",b",
        "three,",
        "four,b",
        '"five, six",b',
        "seven,c",
        "NA,d",
        "null,d",
    ]
    table = example.read(table_of(tmp_path, rows), "text", "label")
    kept = [
        ("One", "a"),
        ("two", "a"),
        ("four", "b"),
        ("five, six", "b"),
        ("NA", "d"),
        ("null", "d"),
    ]
    assert list(table.itertuples(index=False, name=None)) == kept
    printed = capsys.readouterr().out
    assert all(
        fact in printed for fact in ("6 texts", "2 incomplete rows", "1 repeated texts", "1 labels")
    )


def test_a_missing_column_is_reported_with_those_of_the_file(example, tmp_path):
    with pytest.raises(UserError, match=r"data\.csv.*category.*text, label.*--label"):
        example.read(table_of(tmp_path, ["one,a"]), "text", "category")


@pytest.mark.parametrize(
    "rows",
    [["one,a", "two,a", "three,b", "four,b", "five,c"], ["one,a", "One,a", "two,b", "three,c"], []],
)
def test_fewer_than_three_labels_with_two_texts_are_refused(example, tmp_path, rows):
    with pytest.raises(UserError, match=r"data\.csv.*label.*at least 3"):
        example.read(table_of(tmp_path, rows), "text", "label")


@pytest.mark.parametrize(
    ("content", "facts"),
    [(None, "does not exist"), (b"text,label\n\xff\xfe,a\n", "CSV in UTF-8"), (b"", "CSV")],
)
def test_a_missing_or_damaged_table_is_reported(example, tmp_path, content, facts):
    path = tmp_path / "data.csv"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UserError, match=rf"data\.csv.*{facts}"):
        example.read(path, "text", "label")


def test_a_label_is_unseen_or_split_into_training_and_held_out_texts(example):
    rows = [
        (f"{label} {number}", label)
        for label in "abcdefg"
        for number in range(ord(label) - ord("a") + 2)
    ]
    table = pd.DataFrame(rows, columns=["text", "label"])  # 2 to 8 texts per label
    unseen = set()
    for seed in range(20):
        drawn = example.split(table, 6, seed)
        assert set(zip(drawn["text"], drawn["label"], strict=True)) <= set(rows)
        assert not drawn["text"].duplicated().any()
        parts = {label: Counter(group["part"]) for label, group in drawn.groupby("label")}
        for label, counts in parts.items():
            size = min(6, sum(other == label for _, other in rows))
            training = max(2, size * 3 // 4)
            wanted = (
                {"unseen": size}
                if "unseen" in counts
                else {"training": training, "held out": size - training}
            )
            assert counts == Counter(wanted)
        assert sum("unseen" in counts for counts in parts.values()) == 2  # a third of seven
        unseen |= {(label, seed) for label, counts in parts.items() if "unseen" in counts}
    assert {label for label, _ in unseen} == set("abcdefg")
    pd.testing.assert_frame_equal(example.split(table, 6, 1), example.split(table, 6, 1))


@pytest.mark.parametrize(("texts", "per_label"), [(2, 16), (9, 2), (9, 1)])
def test_a_split_without_held_out_texts_is_refused(example, texts, per_label):
    table = pd.DataFrame(
        [(f"{label} {number}", label) for label in "abcd" for number in range(texts)],
        columns=["text", "label"],
    )
    with pytest.raises(UserError, match=r"hold out.*3 texts.*--per-label"):
        example.split(table, per_label, 0)


def test_every_text_is_once_anchor_and_once_positive_per_epoch_and_never_its_own(example):
    training = made_up(labels=4, per_label=5).set_axis(["text", "label"], axis=1)
    label_of = dict(training.itertuples(index=False, name=None))
    data = example.pairs(training, epochs=3, seed=0)
    assert data.column_names == ["anchor", "positive"]  # so no loss can see a label
    for column in data.column_names:
        assert Counter(data[column]) == Counter(3 * list(training["text"]))
    chosen = list(zip(data["anchor"], data["positive"], strict=True))
    assert all(
        anchor != positive and label_of[anchor] == label_of[positive] for anchor, positive in chosen
    )
    assert len(set(chosen)) > 20  # other pairs in each epoch
    assert data["anchor"] != example.pairs(training, epochs=3, seed=1)["anchor"]


def test_accuracy_is_that_of_a_vote_among_the_five_nearest_texts_in_a_loop(example):
    draw = np.random.default_rng(0)
    labels, part = (
        draw.choice(list("abcd"), 80),
        draw.choice(["training", "held out", "unseen"], 80),
    )
    vectors = draw.normal(size=(80, 4)) + 1.5 * np.array(
        [[letter == other for other in "abcd"] for letter in labels]
    )
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    right = defaultdict(list)
    for i in range(80):
        others = [j for j in range(80) if j != i and part[j] != "held out"]
        nearest = sorted(others, key=lambda j: -(unit[i] @ unit[j]))[:5]
        votes = Counter(labels[j] for j in nearest)
        winner = min(label for label, count in votes.items() if count == max(votes.values()))
        right[part[i]].append(winner == labels[i])
    measured = example.accuracy(vectors, labels, part)
    assert measured == pytest.approx(
        {name: np.mean(right[name]) for name in ("held out", "unseen")}
    )
    assert 0.3 < min(measured.values()) < max(measured.values()) < 1


def test_differences_are_paired_and_have_their_standard_errors(example):
    draw = np.random.default_rng(0)
    columns = pd.MultiIndex.from_product([["held out", "unseen"], ["untrained", "CL", "guided"]])
    values = pd.DataFrame(draw.uniform(0.5, 0.9, (4, 6)), columns=columns)
    table = example.summary(values)
    for part in ("held out", "unseen"):
        for loss, baseline in (("CL", "untrained"), ("guided", "untrained"), ("guided", "CL")):
            reference = ttest_rel(values[part, loss], values[part, baseline])
            mean = (values[part, loss] - values[part, baseline]).mean()
            row = table.loc[(part, loss)]
            assert row["accuracy"] == pytest.approx(100 * values[part, loss].mean(), abs=0.051)
            assert row[f"minus {baseline}"] == pytest.approx(100 * mean, abs=0.051)
            assert row[f"s.e. ({baseline})"] == pytest.approx(
                100 * mean / reference.statistic, abs=0.051
            )


def test_losses_share_initial_weights_and_batches(example, model):
    from sentence_transformers import SentenceTransformer

    training = made_up(per_label=24).set_axis(["text", "label"], axis=1)
    data = example.pairs(training, epochs=1, seed=0)

    def trained(estimator, seed):
        network = SentenceTransformer(model, device="cpu")
        example.train(network, RankingLoss(network, estimator), data, 1e-2, seed)
        return torch.cat([parameter.detach().flatten() for parameter in network.parameters()])

    uncorrected = trained(Uncorrected(), 0)
    # without false negatives to subtract, the same loss
    torch.testing.assert_close(uncorrected, trained(Debiased(0.0), 0))
    assert (uncorrected - trained(Guided(), 0)).abs().max() > 1e-3
    assert (uncorrected - trained(Uncorrected(), 1)).abs().max() > 1e-3


def run(monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["train.py", *map(str, arguments)])
    runpy.run_path(str(PROGRAM), run_name="__main__")


def test_the_example_trains_and_prints_differences_to_the_untrained_encoder(
    example, model, tmp_path, monkeypatch, capsys
):
    from sentence_transformers import SentenceTransformer

    texts = made_up(per_label=24)
    texts.to_csv(tmp_path / "data.csv", index=False)
    temperatures = {"CL": 0.05, "guided": 0.1, "hardness": 0.2}
    settings = [
        "--layers",
        1,
        "--epochs",
        8,
        "--learning-rate",
        1e-2,
        "--seeds",
        2,
        "--tokens",
        16,
        "--per-label",
        32,
    ]
    columns = ["--text", "question", "--label", "intent", "--model", model]
    run(
        monkeypatch,
        tmp_path / "data.csv",
        *columns,
        *settings,
        "--temperature",
        *temperatures.values(),
    )
    lines = capsys.readouterr().out.splitlines()
    shares = defaultdict(list)
    for _, loss, result in (line.split(", ") for line in lines if line.startswith("seed ")):
        part, share = result.rstrip("%").split(": ")
        shares[part, loss].append(float(share))
    names = [
        (part, loss)
        for part in ("held out", "unseen")
        for loss in ("untrained", "CL", "guided", "hardness")
    ]
    assert {key: len(values) for key, values in shares.items()} == dict.fromkeys(names, 2)

    # The printed means and differences are those of the seeds, and CL improves on the untrained
    # encoder.
    for line, (part, loss) in zip(lines[-8:], names, strict=True):
        accuracy, *differences = map(
            np.mean, (shares[part, other] for other in (loss, "untrained", "CL"))
        )
        name, *numbers = line.removeprefix("held out").removeprefix("unseen").split()
        assert name == loss
        wanted = [accuracy, *(accuracy - baseline for baseline in differences)]
        assert [float(numbers[column]) for column in (0, 1, 3)] == pytest.approx(wanted, abs=0.151)
        assert (part, loss) != ("held out", "CL") or wanted[1] > 5

    # The first seed again: the last layer alone is trained, each loss at its temperature, and the
    # guide is the untrained model.
    drawn = example.split(texts.set_axis(["text", "label"], axis=1), 32, seed=0)
    data = example.pairs(drawn[drawn["part"] == "training"], 8, seed=0)
    for loss, temperature in temperatures.items():
        network, untrained = (SentenceTransformer(model, device="cpu") for _ in range(2))
        for name, parameter in network.named_parameters():
            parameter.requires_grad_("layer.1." in name)
        guide = untrained if loss == "guided" else None
        example.train(
            network,
            RankingLoss(network, example.LOSSES[loss], 1 / temperature, guide),
            data,
            1e-2,
            0,
        )
        measured = example.accuracy(
            network.encode(list(drawn["text"])), drawn["label"].to_numpy(), drawn["part"].to_numpy()
        )
        assert [shares[part, loss][0] for part in measured] == pytest.approx(
            [100 * share for share in measured.values()], abs=0.051
        )


def test_user_errors_end_the_program_with_a_sentence(model, tmp_path, monkeypatch, capsys):
    made_up().to_csv(tmp_path / "data.csv", index=False)
    with pytest.raises(
        SystemExit, match=r"Error: .*no column label or text; found question, intent"
    ):
        run(monkeypatch, tmp_path / "data.csv")
    with pytest.raises(SystemExit, match=r"9.*3 blocks"):
        run(
            monkeypatch,
            tmp_path / "data.csv",
            "--text",
            "question",
            "--label",
            "intent",
            "--model",
            model,
            "--layers",
            9,
        )


@pytest.mark.parametrize("estimator", ["dcl", "oracle"])
def test_simclr_learns_to_tell_the_classes_apart(estimator, monkeypatch, capsys):
    path = ROOT / "examples/simclr.py"
    arguments = ["simclr.py", "--estimator", estimator, "--epochs", "6"]
    monkeypatch.setattr(sys, "argv", arguments)
    runpy.run_path(str(path), run_name="__main__")
    untrained, *epochs = capsys.readouterr().out.splitlines()
    assert len(epochs) == 6
    losses = [float(re.search(r"loss ([\d.]+)", line)[1]) for line in epochs]
    assert losses[-1] < losses[0] - 0.3
    before, after = (float(re.search(r"([\d.]+)%", line)[1]) for line in (untrained, epochs[-1]))
    assert before < 30  # of ten classes
    assert after > 50
