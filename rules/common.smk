# The configuration, checked; and the functions by which rules ask it. Nothing here imports torch or looks at this machine's devices.

from pathlib import Path

import yaml
from snakemake.exceptions import WorkflowError
from snakemake.utils import update_config

from trueneg.errors import UserError
from trueneg.report import catalogue
from trueneg.study import provenance, runs
from trueneg.study.reading import load_configuration
from trueneg.study.store import RunStore

DEFAULT = Path(workflow.basedir) / "config" / "config.yaml"


def given_configuration():
    """What the command line gives; the embedded default comes first only where no --configfile is given."""
    if workflow.configfiles:
        return config, ", ".join(str(path) for path in workflow.configfiles)
    merged = yaml.safe_load(DEFAULT.read_text())
    update_config(merged, config)
    return merged, "config/config.yaml"


try:
    configuration = load_configuration(*given_configuration())
except UserError as error:
    raise WorkflowError(f"The configuration cannot be used.\n{error}")

studies = configuration.studies
# The same as plain values, every default filled in: what lookup() reads and what jobs are handed.
settings = {name: study.model_dump(mode="json") for name, study in studies.items()}


wildcard_constraints:
    study="|".join(studies),
    dataset="[^/]+",
    objective="[^/]+",
    block="seed[0-9+-]+",
    figure="[a-z_]+",
    table="[a-z_]+",


def blocks_of(wildcards):
    """The seeds of a job."""
    return runs.blocks(studies[wildcards.study])[wildcards.block]


def results_of_study(pattern):
    """An input function: `pattern` for every data set, objective and block of the study."""

    def paths(wildcards):
        study = studies[wildcards.study]
        return collect(
            pattern,
            study=wildcards.study,
            dataset=runs.datasets(study),
            objective=runs.objectives(study),
            block=runs.blocks(study),
        )

    return paths


def manifests_of_studies(wildcards):
    """The manifests of every study."""
    return [
        f"results/{name}/manifests/{dataset}/{objective}/{block}.json"
        for name, study in studies.items()
        for dataset in runs.datasets(study)
        for objective in runs.objectives(study)
        for block in runs.blocks(study)
    ]


def figures_of_studies(wildcards):
    """The figures of every study."""
    return [
        f"results/{name}/figures/{figure}.png" for name, study in studies.items() for figure in catalogue.figures_of(study)
    ]


def tables_of_studies(wildcards):
    """The tables of every study."""
    return collect("results/{study}/tables/{table}.csv", study=studies, table=catalogue.TABLES)


def print_stale_runs():
    """Say which finished runs were made with another version of the code that trains."""
    stale = provenance.stale_runs(RunStore("results/runs"))
    if stale:
        print(
            f"{len(stale)} runs in results/runs were made with other code than today's. `trueneg runs` marks them; "
            "`--config retrain_stale=true` trains them anew."
        )
