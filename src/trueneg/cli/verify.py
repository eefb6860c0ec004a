"""Compare every file in the results with the checksum recorded when it was written, and say how to
replace those that are damaged or missing.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath

from trueneg.errors import UserError
from trueneg.io.seals import fault, sealed_files
from trueneg.legible import counted
from trueneg.specs.kinds.trained import TrainedStudy
from trueneg.specs.settings import Study
from trueneg.store.blocks import BLOCK, block_files, planned_blocks
from trueneg.store.records import read_json
from trueneg.store.run_store import RunStore, fault_of_listed

# by store: its manifests, and under which key they list what is in it
LISTED = {
    "runs": ("*/manifests/*/*/*.json", "runs"),
    "language_models": ("*/text/*/language_models/*.json", "models"),
}
# Other files are made again when a job needs them.
SHOWN = ("artefacts", "figures", "tables", "tuning")
# folders of data that several studies may read
INTERMEDIATE = ("sources", "pairs", "texts", "benchmarks", "features")
NOT_NEEDED = " that this configuration does not need"


def verify(results: Path, studies: Mapping[str, Study]) -> tuple[int, str]:
    """Compare the files of jobs, of runs and of language models with their checksums.

    A file that was written and is gone is missing if the studies plan it: a file of a block, or
    what tables, figures and page are made of. A run is missing if a manifest lists it.

    Args:
        results: the results folder.
        studies: the studies of the configuration.

    Returns:
        The number of damaged and missing files, and a text with a line for each of them that says
            how to replace it.

    Raises:
        UserError: if there is no results folder.
    """
    if not results.is_dir():
        raise UserError(f"--results is {results}; expected the folder of the results.")
    sealed = [
        path
        for path in sealed_files(results, "")
        if path.relative_to(results).parts[0] not in LISTED
    ]
    files = [path for path in sealed if path.is_file()]
    gone = [path for path in sealed if not path.is_file()]
    missing = [path for path in gone if _is_planned(path.relative_to(results), studies)]
    faults = [problem for path in sorted(files + missing) if (problem := fault(results, path))]
    trained = [
        path.parent
        for store in LISTED
        for path in sorted((results / store).glob(f"*/{RunStore.RECORD}"))
    ]
    for folder in trained:
        faults += _faults_of_run(RunStore(folder.parent), folder.name)
    lost = list(_lost_runs(results))
    verified = (
        f"{counted(len(files), 'file')} and {counted(len(trained), 'trained model')} verified:"
        f" {len(faults) - len(missing)} damaged, {len(missing) + len(lost)} missing"
    )
    others = Counter(path.relative_to(results).parts[0] for path in gone if path not in missing)
    removed = [
        f"{results / top}: {counted(count, 'file')} removed"
        + (", made again when needed" if top in INTERMEDIATE else NOT_NEEDED)
        for top, count in others.items()
    ]
    return len(faults) + len(lost), "\n  ".join([verified, *faults, *lost, *removed])


def _is_planned(path: Path, studies: Mapping[str, Study]) -> bool:
    """Return whether a file below the results folder is planned by a study, and is no intermediate
    one.
    """
    name, *rest = path.parts
    if not rest:  # such as the page's start
        return True
    if (study := studies.get(name)) is None:
        return False
    place = str(PurePosixPath(*rest))
    if isinstance(study, TrainedStudy) and any(
        path.match(f"{name}/{pattern.format('*/*/*')}") for pattern in BLOCK
    ):
        return any(place in block_files(block) for block in planned_blocks(name, study))
    return rest[0] in SHOWN


def _faults_of_run(store: RunStore, identifier: str) -> Iterator[str]:
    try:
        store.checksum(identifier)
        for path in store.sealed(identifier):  # also rows that can be measured again
            store.require_intact(identifier, path)
    except (UserError, OSError) as error:
        yield str(error)


def _lost_runs(results: Path) -> Iterator[str]:
    """Say which runs and language models a manifest lists whose record is gone, once each."""
    said = set()
    for place, (pattern, kind) in LISTED.items():
        store = RunStore(results / place)
        for manifest in sorted(results.glob(pattern)):
            try:
                listed = read_json(manifest).get(kind, [])
            except UserError:  # damaged, which was said
                continue
            for run in listed:
                identifier = run.get("id") or Path(run["folder"]).name
                is_lost = not (store.folder(identifier) / RunStore.RECORD).is_file()
                is_released = kind == "models" and run["checksum"] is None
                if is_lost and not is_released and identifier not in said:
                    said.add(identifier)
                    yield fault_of_listed({**run, "id": identifier}, manifest, store)
