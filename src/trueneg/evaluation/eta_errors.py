"""How far the class probabilities that the runs of a study use are from the known ones."""

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from pandas import DataFrame

from trueneg.data.pairs.pair_source import read_pairs
from trueneg.data.pairs.training_split import PairData
from trueneg.data.samples import read_subsets
from trueneg.io.files import write_tables
from trueneg.specs.kinds import kind_of
from trueneg.store.records import Record, RunRecord, read_json

Files = Sequence[str | Path]


def write_eta_errors(*, runs: Files, sources: Files, subsets: Files, errors: str | Path) -> None:
    r"""Write the mean η of each run and its error, the last term of Sample-Specific Debiasing's
    Proposition 1.

    .. math:: E_x \Bigl| \frac{1}{1 - \eta(x)} - \frac{1}{1 - \rho(c_x)} \Bigr|

    x is a training sentence whose class is known, weighted by its probability of being drawn. ρ is
    the true η of the source, or the share of training images that show the class. A run without
    class probabilities counts as η = 0.

    Args:
        runs: records of the runs (``artefacts/runs``), one file per objective and block of seeds.
        sources: files of the sources (``results/pairs``).
        subsets: files of the subsets; the folder of each is the label of its data set.
        errors: parquet file to write: ``run``, ``error of η``, ``mean η``.
    """
    path_of = {Path(path).stem: path for path in sources}
    of_seed = {
        (Path(path).parent.name, seed): part
        for path in subsets
        for seed, part in read_subsets(path).items()
    }
    rows = []
    recorded = sorted(
        (run for path in runs for run in read_json(path, list[RunRecord])), key=_data_of
    )
    for (source, label, seed), listed in itertools.groupby(recorded, _data_of):
        data = PairData(read_pairs(path_of[source]), of_seed[label, seed], torch.device("cpu"))
        # ρ = 1 would give an infinite error
        shares = data.shown.double().mean(0).clamp(max=1 - 1 / len(data.images))
        is_true = "true" in data.source.class_probabilities
        rho = data.class_probability("true").double() if is_true else shares[data.class_of]
        weights = data.sentence_weights * (data.class_of >= 0)
        for run in listed:
            objective = run["settings"]["objective"]
            setting = objective.get("class_probability", 0.0)
            a = objective.get("a")
            k = objective.get("k")
            eta = (
                data.class_probability(setting, a, k)
                if isinstance(setting, str | Mapping)
                else torch.full_like(rho, setting)
            )
            error = (1 / (1 - eta.double()) - 1 / (1 - rho)).abs()
            rows.append(
                (
                    run["id"],
                    *(
                        (weights * each).sum().item() / weights.sum().item()
                        for each in (error, eta)
                    ),
                )
            )
    write_tables({errors: DataFrame(rows, columns=["run", "error of η", "mean η"])})


def _data_of(run: Record) -> tuple[str, str, int]:
    """Return the key of a run's source, the label of its data set and its seed."""
    settings = run["settings"]
    return kind_of(settings).data_key(settings["dataset"]), run["dataset"], run["seed"]
