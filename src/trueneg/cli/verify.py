"""Compare every file of a study with the checksum recorded when it was written, and say how to replace damaged ones."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from trueneg.config.image_study import ImageStudy
from trueneg.config.image_text_study import ImageTextStudy
from trueneg.config.likelihood_study import LikelihoodStudy
from trueneg.config.runs import all_runs
from trueneg.config.trained_study import TrainedStudy
from trueneg.errors import UserError
from trueneg.io.seals import damage, is_sealed, sealed_files
from trueneg.legible import counted
from trueneg.specs.settings import Study
from trueneg.store import user_files
from trueneg.store.language_models import read_language_models
from trueneg.store.records import Manifest, read_json
from trueneg.store.run_store import RunStore

# What happens after a damaged file was removed, by the first folder of its path below the study or the results.
CONSEQUENCES = {
    **dict.fromkeys(("sources", "pairs", "benchmarks"), "the data are decoded again from your files"),
    "text": "the texts are processed again; finished language models and cached scores are reused",
    "subsets": "the subsets are drawn again from the decoded data",
    "manifests": "finished runs are listed again without training",
    "rows": "the block's runs are evaluated again",
    "tuning": "the winners are selected again from the pilots' rows",
    "artefacts": "it is computed again from the rows and runs",
    **dict.fromkeys(("figures", "tables"), "it is drawn again from the artefacts"),
}
UNSEALED = ("manifests", "rows", "subsets", "text", "artefacts", "figures", "tables")  # folders of files that jobs seal


def verify(name: str, studies: Mapping[str, Study], results: Path) -> tuple[int, str]:
    """Compare the files of a study, its data and its runs with their checksums.

    Args:
        name: name of the study.
        studies: all studies of its configuration.
        results: the results folder.

    Returns:
        The number of damaged or missing files, and a text with a line for each of them that says how to replace it.
    """
    study = studies[name]
    places = [f"{name}/", *_data(name, study, studies)]
    files = list(dict.fromkeys(path for place in places for path in sealed_files(results, place)))
    faults = [f"{path} {problem}. {_remedy(path, results)}" for path in files if (problem := damage(results, path))]
    runs = _runs(results / name)
    faults += [fault for identifier in runs for fault in _damaged_run(RunStore(results / "runs"), identifier)]
    manifests = sorted((results / name / "text").glob("*/language_models/*.json"))
    faults += [fault for manifest in manifests for fault in _damaged_models(manifest)]
    unsealed = sum(
        path.is_file() and not is_sealed(results, path)
        for folder in UNSEALED
        for path in (results / name / folder).rglob("*")
        if path.name[0] != "." and "cache" not in path.parts and not path.name.endswith(".files.json")
    )
    lines = [f"{name}: {counted(len(files), 'file')} and {counted(len(runs), 'run')} verified, {len(faults)} damaged or missing"]
    if unsealed:
        lines.append(f"{counted(unsealed, 'file')} without a recorded checksum, which cannot be verified")
    return len(faults), "\n  ".join([*lines, *faults])


def _data(name: str, study: Study, studies: Mapping[str, Study]) -> Iterator[str]:
    """Yield the places of the decoded data that a study uses."""
    if isinstance(study, TrainedStudy):
        for dataset in {repr(run.settings["dataset"]): run.settings["dataset"] for run in all_runs(name, study)}.values():
            if isinstance(study, ImageStudy):
                yield user_files.of_images(dataset).place
            else:
                yield user_files.of_pairs(dataset, studies).place
            if isinstance(study, ImageTextStudy) and study.evaluation.chexpert_8x200 is not None:
                yield user_files.of_benchmark(study.evaluation.chexpert_8x200, dataset).place
    elif isinstance(study, LikelihoodStudy):
        yield from (reading.place for reading in user_files.of_corpora(name, study).values())


def _remedy(path: Path, results: Path) -> str:
    parts = path.relative_to(results).parts
    consequence = next((CONSEQUENCES[part] for part in parts[:2] if part in CONSEQUENCES), "it is made again")
    remove = f"Remove it and run `snakemake {path}`" if path.is_file() else f"Run `snakemake {path}`"
    return f"{remove} with this configuration: {consequence}."


def _runs(folder: Path) -> list[str]:
    """Return the ids of the runs in a study's readable manifests; damaged manifests are reported by their own checksum."""
    found: dict[str, None] = {}
    for path in sorted(folder.glob("manifests/*/*/*.json")):
        try:
            found |= {run["id"]: None for run in read_json(path, Manifest)["runs"]}
        except UserError:
            continue
    return list(found)


def _damaged_run(store: RunStore, identifier: str) -> Iterator[str]:
    if store.state(identifier) not in RunStore.TRAINED:
        yield f"{store.folder(identifier)} has no finished run, but manifests list it. {store.removal(identifier)}"
    elif problem := store.damaged(identifier):
        yield f"{problem} {store.removal(identifier)}"
    else:
        try:
            store.checksum(identifier)
        except UserError as error:
            yield str(error)


def _damaged_models(manifest: Path) -> Iterator[str]:
    try:
        read_language_models(manifest)
    except UserError as error:
        yield str(error)
