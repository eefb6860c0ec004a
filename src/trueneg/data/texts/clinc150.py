"""CLINC150 (Larson et al., 2019): questions to an assistant with 150 intents, and questions that
are out of its scope.

A JSON file such as data_full.json has lists of [text, intent] for ``train``, ``val`` and ``test``,
and out-of-scope texts in ``oos_train``, ``oos_val`` and ``oos_test``, which are left out.
"""

import json
from pathlib import Path

from pandas import DataFrame

from trueneg.data.texts.text_files import TextFiles, source_of
from trueneg.data.texts.text_source import TextSource
from trueneg.io.reading import reading
from trueneg.specs.sections import Section

ORIGIN = "Download data_full.json again from https://github.com/clinc/oos-eval."
SPLITS = {"train": "train", "val": "validation", "test": "test"}


def read_source(settings: Section) -> TextSource:
    """Read the texts with an intent.

    Raises:
        UserError: if the file is missing, damaged, or has another layout.
    """
    path = Path(settings["path"]).expanduser()
    with reading(
        path, "CLINC150, JSON with lists of [text, intent] for train, val and test", ORIGIN
    ):
        content = json.loads(path.read_bytes())
        listed = [
            (SPLITS[part], intent, " ".join(text.split()))
            for part in SPLITS
            for text, intent in content[part]
        ]
        table = DataFrame(listed, columns=["split", "label", "text"])
        "".join(table["label"] + table["text"]).encode()  # refuses numbers and half characters
        trained = table.loc[table["split"] == "train", "label"]
        if "" in {*table["label"], *table["text"]} or not table["label"].isin(trained).all():
            raise ValueError("a text or intent is empty, or has no training text")
        out_of_scope = sum(len(texts) for part, texts in content.items() if part.startswith("oos_"))
    return source_of(
        settings,
        table,
        f"{out_of_scope:,} out-of-scope texts are left out." if out_of_scope else "",
    )


FILES = TextFiles(read_source, "data_full.json of https://github.com/clinc/oos-eval")
read_texts = FILES.read_texts
check_table = FILES.check_table
user_files = FILES.user_files
missing_files = FILES.missing_files
