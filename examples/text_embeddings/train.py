"""Fine-tune a text encoder on pairs of texts with the same label: three losses, and the untrained
encoder as the baseline.
"""

import argparse
import copy
import tempfile
from collections import defaultdict

import numpy as np
import pandas as pd
from datasets import Dataset
from sentence_transformers import SentenceTransformerTrainer, SentenceTransformerTrainingArguments
from sklearn.neighbors import KNeighborsClassifier

from trueneg.errors import UserError
from trueneg.io.reading import reading
from trueneg.losses import Guided, HardNegative, Uncorrected
from trueneg.losses.adapters import RankingLoss
from trueneg.models.towers.sentence_transformers_tower import SentenceTransformerTower
from trueneg.models.towers.tower import train_only

LOSSES = {
    "CL": Uncorrected(),
    "guided": Guided(),
    "hardness": HardNegative(beta=1.0, class_probability=0.0),
}
SETTINGS = {
    "num_train_epochs": 1,
    "per_device_train_batch_size": 64,
    "save_strategy": "no",
    "use_cpu": True,
}


def read(path, text, label):
    """Return a table with columns text and label: different texts of labels with at least two.
    Print what is left out.
    """
    with reading(path, "a CSV table", "Save it again as CSV in UTF-8.", missing="Check the path."):
        table = pd.read_csv(path, dtype=str, keep_default_na=False)
    if missing := {text, label} - set(table):
        raise UserError(
            f"{path}: no column {' or '.join(sorted(missing))}; found {', '.join(table)}. Use"
            " --text and --label."
        )
    filled = (
        pd.DataFrame({"text": table[text].str.strip(), "label": table[label].str.strip()})
        .replace("", None)
        .dropna()
    )
    different = filled[~filled["text"].str.casefold().duplicated()]
    kept = different[different.groupby("label")["text"].transform("size") >= 2]
    empty, repeated, single = -np.diff([len(each) for each in (table, filled, different, kept)])
    print(
        f"{len(kept)} texts; left out: {empty} incomplete rows, {repeated} repeated texts, {single}"
        " labels with a single text"
    )
    if (count := kept["label"].nunique()) < 3:
        raise UserError(
            f"{path}: {count} labels of column {label} have two different texts; expected at least"
            " 3. Add rows."
        )
    return kept


def split(table, per_label, seed):
    """Draw texts of each label. A third of the labels is unseen; of the others, 3/4 of the texts,
    at least 2, are trained.
    """
    draw = np.random.default_rng(seed)
    labels = draw.permutation(sorted(table["label"].unique()))
    drawn = table.iloc[draw.permutation(len(table))].groupby("label").head(per_label)
    is_training = drawn.groupby("label").cumcount() < drawn["label"].map(
        drawn["label"].value_counts() * 3 // 4
    ).clip(2)
    part = np.select(
        [drawn["label"].isin(labels[: len(labels) // 3]), is_training],
        ["unseen", "training"],
        "held out",
    )
    if "held out" not in part:
        raise UserError(
            "No text is left to hold out; expected labels with at least 3 texts, and --per-label of"
            " at least 3."
        )
    return drawn.assign(part=part)


def pairs(training, epochs, seed):
    """Return pairs of two texts of a label, without the label: each text is once anchor and once
    positive per epoch.
    """
    draw = np.random.default_rng(seed)
    anchors = pd.concat(
        [training.sample(frac=1, random_state=draw).assign(epoch=epoch) for epoch in range(epochs)]
    )
    positives = anchors.groupby(["epoch", "label"])["text"].transform(
        lambda texts: np.roll(texts, 1)
    )
    return Dataset.from_dict({"anchor": list(anchors["text"]), "positive": list(positives)})


def train(model, loss, data, learning_rate, seed):
    """Fine-tune a model in place; batches and dropout depend on the seed alone, so all losses share
    them.
    """
    with tempfile.TemporaryDirectory() as folder:
        arguments = SentenceTransformerTrainingArguments(
            folder, learning_rate=learning_rate, seed=seed, **SETTINGS
        )
        SentenceTransformerTrainer(model, arguments, data, loss=loss).train()


def accuracy(vectors, labels, part):
    """Return the share of texts, by their part, whose label is that of most of their 5 nearest
    training and unseen texts.
    """
    bank, query = part != "held out", part == "held out"
    knn = KNeighborsClassifier(5, metric="cosine").fit(vectors[bank], labels[bank])
    # None: every text of the bank, which is not its own neighbour
    is_right = knn.predict(None) == labels[bank]
    return {
        "held out": knn.score(vectors[query], labels[query]),
        "unseen": is_right[part[bank] == "unseen"].mean(),
    }


def summary(values):
    """Return means over seeds, and means of paired differences with their standard errors; the
    columns are (part, loss).
    """
    table = pd.DataFrame({"accuracy": values.mean()})
    for baseline in ("untrained", "CL"):
        differences = pd.DataFrame(
            {(part, loss): values[part, loss] - values[part, baseline] for part, loss in values}
        )
        table[f"minus {baseline}"], table[f"s.e. ({baseline})"] = (
            differences.mean(),
            differences.sem(),
        )
    # turns −0.0 into 0.0
    return (100 * table).round(1).sort_index(level=0, sort_remaining=False) + 0.0


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("table", help="CSV file with a text and its label in each row")
    parser.add_argument("--text", default="text", help="column of texts")
    parser.add_argument("--label", default="label", help="column of labels")
    parser.add_argument(
        "--model", default="all-MiniLM-L6-v2", help="installed package, folder, or name on the hub"
    )
    parser.add_argument(
        "--layers",
        type=int,
        default=2,
        help="train this many last layers of a transformer; 0: all parameters",
    )
    parser.add_argument(
        "--temperature",
        type=float,
        nargs=3,
        default=[0.05] * 3,
        metavar=tuple(LOSSES),
        help="of each loss",
    )
    for name, default in {
        "tokens": 32,
        "per-label": 16,
        "epochs": 2,
        "learning-rate": 2e-5,
        "seeds": 5,
    }.items():
        parser.add_argument(f"--{name}", type=type(default), default=default, help="see README.md")
    options = parser.parse_args()
    table = read(options.table, options.text, options.label)
    tower = SentenceTransformerTower.build(
        vars(options) | {"revision": None, "offline": False, "maximum_tokens": options.tokens}
    )
    train_only(tower, {"last": options.layers} if options.layers else "all", options.model)
    print(
        f"{(np.array(tower.lengths(list(table['text']))) > options.tokens).sum()} texts are cut to"
        f" {options.tokens} tokens"
    )
    values = defaultdict(list)
    for seed in range(options.seeds):
        drawn = split(table, options.per_label, seed)
        texts, labels, part = drawn[["text", "label", "part"]].to_numpy().T
        guide = dict(zip(texts, tower.model.encode(texts), strict=True))
        for name, temperature in zip(
            ("untrained", *LOSSES), (1, *options.temperature), strict=True
        ):
            model = copy.deepcopy(tower.model)
            if name != "untrained":
                loss = RankingLoss(
                    model, LOSSES[name], 1 / temperature, guide if name == "guided" else None
                )
                train(
                    model,
                    loss,
                    pairs(drawn[part == "training"], options.epochs, seed),
                    options.learning_rate,
                    seed,
                )
            for where, share in accuracy(model.encode(texts), labels, part).items():
                values[where, name].append(share)
                print(f"seed {seed}, {name}, {where}: {share:.1%}", flush=True)
    print(summary(pd.DataFrame(values)).to_string())


if __name__ == "__main__":
    try:
        main()
    except UserError as error:
        raise SystemExit(f"Error: {error}") from None
