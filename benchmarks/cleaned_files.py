"""Write files of texts with mined hard negatives, raw and cleaned, and compare training on them.

    python benchmarks/cleaned_files.py write data/banking77 data/medquad
    python benchmarks/cleaned_files.py compare > docs/results/cleaned_files_compared.csv

The first command writes ``mined.jsonl`` into both folders: ``{"query", "pos", "neg"}`` lines, with
the label of a row and its split beside. Hard negatives are the four nearest positives of other
training rows, by a frozen MiniLM; as in most users' files, nothing but the row's own positive
limits them. ``trueneg clean`` then writes the cleaned files (docs/protocols/cleaned_files.md).
The second compares runs on these files, paired by seed, from docs/results/cleaned_files.csv.
"""

import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd

from trueneg.audit.hard_negatives import FrozenTexts
from trueneg.cli.audit_inputs import tower_of
from trueneg.stats.comparison import paired_differences
from trueneg.stats.measurement import Measurement
from trueneg.store.rows import COLUMNS as TIDY

ROWS = Path(__file__).parents[1] / "docs/results/cleaned_files.csv"
COUNT = 4  # hard negatives of a training row
CONCEPTS = 1200  # of MedQuAD; each has one or more pairs
SEED = 0
MODEL = (
    "{name: sentence_transformers, model: all-MiniLM-L6-v2, maximum_tokens: 128, truncate: true}"
)
COLUMNS = ["query", "pos", "neg", "label", "group", "split"]
MEASURES = {
    "MAP": Measurement("retrieval", "MAP", "seen by label"),
    "nDCG@10": Measurement("retrieval", "nDCG", "seen by label", k=10),
}
SHOWN = ["collection", "file", "baseline", "measured", "seeds", "mean", "difference", "low", "high"]
SHOWN += ["p", "margin", "p equivalence"]
MARGIN = 0.005


def banking77(folder: Path) -> pd.DataFrame:
    """Pair each question with the next one of its label, in a random order."""
    parts = []
    for split in ("train", "test"):
        rows = pd.read_csv(folder / f"{split}.csv").rename(columns={"text": "query"})
        rows = rows.drop_duplicates("query").sample(frac=1, random_state=SEED)
        by_label = rows.groupby("category")["query"]
        following = by_label.shift(-1).fillna(by_label.transform("first"))
        parts.append(rows.assign(pos=following, split=split))
    rows = pd.concat(parts).rename(columns={"category": "label"})
    return rows.assign(group="")


def medquad(folder: Path) -> pd.DataFrame:
    """Take the questions on some concepts; a fifth of these are tested."""
    table = pd.read_csv(folder / "pairs.csv", keep_default_na=False)
    table = table[table["question"].str.lower() != table["answer"].str.lower()]
    concepts = pd.Series(np.sort(table["concept"].unique()))
    concepts = concepts.sample(CONCEPTS, random_state=SEED)
    tested = concepts[: CONCEPTS // 5]
    table = table[table["concept"].isin(concepts)]
    names = {"question": "query", "answer": "pos", "right_answers": "label", "concept": "group"}
    is_tested = table["concept"].isin(tested)
    return table.rename(columns=names).assign(split=np.where(is_tested, "test", "train"))


def mined(rows: pd.DataFrame) -> list[list[str]]:
    """Return the positives of other training rows that are nearest to each query."""
    corpus = rows["pos"].unique()
    encoder = FrozenTexts(tower_of(MODEL), np.empty(0, np.uint64))
    queries = encoder.vectors(pd.DataFrame({"text": rows["query"]}))
    answers = encoder.vectors(pd.DataFrame({"text": corpus}))
    found = []
    for vector, query, own in zip(queries, rows["query"], rows["pos"], strict=True):
        nearest = corpus[np.argsort(-(answers @ vector), kind="stable")[: COUNT + 2]]
        found.append([text for text in nearest if text not in (query, own)][:COUNT])
    return found


def write(folder: Path, rows: pd.DataFrame) -> None:
    """Write the rows, training rows with hard negatives."""
    is_training = rows["split"] == "train"
    training = rows[is_training]
    training = training.assign(neg=mined(training))
    rows = pd.concat([training, rows[~is_training].assign(neg=[[]] * sum(~is_training))])
    rows = rows.assign(pos=[[text] for text in rows["pos"]])
    with open(folder / "mined.jsonl", "w", encoding="utf-8") as file:
        for row in rows[COLUMNS].to_dict("records"):
            print(json.dumps(row, ensure_ascii=False), file=file)


def compared() -> pd.DataFrame:
    """Return the differences between files, within each collection."""
    rows = pd.read_csv(ROWS).reindex(columns=TIDY)  # those of the csv are not empty
    named = rows["study"].str.extract("cleaned_(?P<study>[^_]+)_(?P<file>.+)")
    files = named["file"].unique().tolist()
    objective = rows["objective"].mask(rows["objective"] == "CL", named["file"])
    objective = objective.mask(objective == "Oracle", "Oracle on " + named["file"])
    rows = rows.assign(study=named["study"], objective=objective)
    rows = rows[rows["split"] == "test"]
    # the untrained encoder is the same for all files
    rows = rows.drop_duplicates(["study", "objective", "seed", "task", "metric", "labels", "k"])
    pairs = [
        *((file, "raw") for file in files if file != "raw"),
        *((file, "untrained") for file in files),
        *((f"Oracle on {file}", file) for file in files),
    ]
    tables = []
    for collection, part in rows.groupby("study"):
        present = set(part["objective"])
        for name, measured in MEASURES.items():
            of_task = measured.rows_of(part)
            for treatment, baseline in pairs:
                if {treatment, baseline} <= present:
                    table = paired_differences(of_task, baseline, [treatment], {measured: MARGIN})
                    tables.append(table.assign(collection=collection, measured=name))
    return pd.concat(tables).rename(columns={"objective": "file"})[SHOWN]


def main() -> None:
    if sys.argv[1] == "write":
        write(Path(sys.argv[2]), banking77(Path(sys.argv[2])))
        write(Path(sys.argv[3]), medquad(Path(sys.argv[3])))
    else:
        print(compared().to_csv(index=False, float_format="%.6g"), end="")


if __name__ == "__main__":
    main()
