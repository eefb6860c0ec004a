"""Labels that may be mistakes: several spellings of one label, names that mean that there is none,
and equal contents with different labels.
"""

from typing import Any

import numpy as np
import regex
from numpy import ndarray
from pandas import DataFrame, Series

from trueneg.data.leakage import EXAMPLES, shortened
from trueneg.data.samples import Samples
from trueneg.legible import counted
from trueneg.text.cleaning import same_form

SEPARATORS = r"[\s\p{Pd}\p{Pc}\p{Ps}\p{Pe}\p{Pi}\p{Pf}.,:;!?'\"/\\]++"
INNER = regex.compile(rf"(?<!^|\d){SEPARATORS}(?!$)|(?<!^){SEPARATORS}(?!$|\d)")
# names of no label, as :func:`spelling` writes them
NO_LABEL = regex.compile(
    r"\?+|blank|default|empty|misc|miscellaneous|missing|na|nan|nil|none|null|no(label|class)|not?"
    r"(applicable|available|known|set)|others?|tbd|todo|un(assigned|clear|defined|known|specified)"
    r"|unk|uncategori[sz]ed|unclassified|unlabell?ed|unsure|untagged"
)


def spelling(label: str) -> str:
    """Return what all spellings of a label have in common: it has no case, white space or
    punctuation. Separators between digits and hyphens at an end mean something, as do other signs.

    Example:
        >>> [spelling(label) for label in ("Email Query", "email_query.", "1.5 kg", "A-", "C#")]
        ['emailquery', 'emailquery', '1.5kg', 'a-', 'c#']
    """
    folded = same_form(label)
    if not regex.search(r"\p{L}", folded):
        return folded
    return INNER.sub("", folded.strip(" _.,:;!?'\""))


def merged(labels: Series) -> Series:
    """Return labels with the most frequent spelling of each.

    Example:
        >>> merged(Series(["a b", "A-B", "c", "a b"])).tolist()
        ['a b', 'a b', 'c', 'a b']
    """
    names: dict[str, str] = {}
    for name in labels.value_counts().index:
        names.setdefault(spelling(name), name)
    return labels.map({name: names[spelling(name)] for name in labels.unique()})


def doubtful_names(labels: Series) -> list[str]:
    """Return sentences about labels with several spellings, and about those that mean none.

    Args:
        labels: name of each sample's label; empty: none.
    """
    sizes = labels[labels != ""].value_counts()
    forms: dict[str, list[str]] = {}
    for name in map(str, sizes.index):
        forms.setdefault(spelling(name), []).append(f"{name} {sizes[name]:,}")
    several = [names for names in forms.values() if len(names) > 1]
    none = [names for form, names in forms.items() if NO_LABEL.fullmatch(form)]
    found = {
        "in several spellings (`trueneg init --merge-labels` makes them one)": several,
        "that may mean that there is none (`trueneg init --leave-out LABEL` leaves them out)": none,
    }
    return [
        f"{counted(len(names), 'label')} {what}: {'; '.join(map(', '.join, names))}"
        for what, names in found.items()
        if names
    ]


def several_labels_of(labels: Series, contents: ndarray, names: ndarray, what: str) -> list[str]:
    """Return a sentence about equal contents with different labels, or none.

    Args:
        labels: as in :func:`doubtful_names`.
        contents: what is equal for samples of equal content, (n,).
        names: what messages call the samples, (n,); or none.
        what: a word for the contents: texts, images.
    """
    rows = DataFrame({"label": labels.to_numpy(), "content": contents})
    rows["name"] = [*map(shortened, names)] or what
    rows = rows[(rows["label"] != "") & rows["content"].duplicated(keep=False)]
    found = rows.groupby("content", sort=False).agg(list).map(dict.fromkeys).map(list)
    found = found[found["label"].map(len) > 1]
    examples = [
        f"{' and '.join(names[:2])} ({', '.join(labels)})"
        for labels, names in found.head(EXAMPLES).to_numpy()
    ]
    sentence = (
        f"{counted(len(found), what.removesuffix('s'))} with different labels, such as:"
        f" {'; '.join(examples)}"
    )
    return [sentence] if examples else []


def doubtful_labels(source: Any) -> list[str]:
    """Return sentences about the doubtful labels of a source of any kind."""
    samples: Samples = source.samples
    names = getattr(source, "class_names", getattr(source, "label_names", ()))
    labels = Series(np.array([*names, ""], object)[samples.label])
    what, contents = next(iter(samples.groups.items()))
    contents = contents.reshape(len(labels), -1)[:, 0]
    found = doubtful_names(labels)
    found += several_labels_of(labels, contents, samples.names, what)
    # what follows a colon is confidential
    return [each.partition(":")[0] for each in found] if samples.restricted else found
