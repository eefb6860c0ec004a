# The validated configuration, and functions that the rules share. Nothing here imports torch or
# looks for devices: the plan is the same on a laptop and on the login node of a cluster.

import os
import re
import shlex
import shutil
import sys
from pathlib import Path

from snakemake.exceptions import WorkflowError
from snakemake.settings.types import DeploymentMethod

from trueneg.data.user_files import check_own_table, compare_files, file_parameter
from trueneg.planning.corpora import Corpora
from trueneg.planning.data_inputs import DataInputs
from trueneg.planning.checkout import require_plain_path
from trueneg.planning.folder_lock import describe_lock, reason_not_to_unlock, record_owner
from trueneg.planning.training_jobs import TrainingJobs
from trueneg.runtime.jobs import SNAKEMAKE
from trueneg.config.reading import load_configuration, merged_files
from trueneg.errors import UserError
from trueneg.report import registry, findings
from trueneg.report.published import published_numbers
from trueneg.store import versions
from trueneg.store.protocol import committed_protocol
from trueneg.store.run_store import RunStore

BEFORE_TRAINING = 10  # priority; training jobs have 1 to 9, and later steps 0
# workflow.basedir is another folder where this workflow is used as a module
CHECKOUT = Path(workflow.current_basedir).parent
PUBLISHED = CHECKOUT / "config/published.csv"
GRES = os.environ.get("TRUENEG_GRES")

# Snakemake refuses a container image whose path has a space, even without containers; the relative
# path rarely has one.
IMAGE = os.path.relpath(CHECKOUT / "trueneg.sif")
if " " in IMAGE and DeploymentMethod.APPTAINER in workflow.deployment_settings.deployment_method:
    raise WorkflowError(
        f"Snakemake cannot use {IMAGE}, whose path has a space. Start it in the folder of the "
        "Snakefile."
    )

# Snakemake runs scripts with this path as part of a shell command, without quotes:
# https://github.com/snakemake/snakemake/issues/2645.
if os.path.exists(sys.executable):  # otherwise quoted already, by another module
    sys.executable = shlex.quote(sys.executable)

if workflow.storage_settings.default_storage_provider is not None:
    raise WorkflowError(
        "TrueNeg needs a shared file system: remove --default-storage-provider and keep the "
        "checkout and results/ where all nodes see them "
        "(docs/cluster.md)."
    )

# Read here, because Snakemake knows no `extends` and would merge the default into other files; a
# module takes what it is given.
default = (
    [] if workflow.config_settings.replace_workflow_config else [CHECKOUT / "config/config.yaml"]
)
files = workflow.overwrite_configfiles or default

try:
    require_plain_path(CHECKOUT)
    if not workflow.modifier.skip_configfile:
        config = merged_files(files, workflow.config_settings.config)
    configuration = load_configuration(config, ", ".join(map(str, workflow.configfiles or files)))
    trainings, corpora = TrainingJobs(configuration), Corpora(configuration)
    data_inputs = DataInputs(trainings, corpora, file_parameter)
    for data_input in data_inputs.tables():
        # they will be read
        if workflow.is_main_process and compare_files(data_input, Path("results")).sentences:
            check_own_table(data_input)
    protocols = {}
    for name, study in trainings.studies.items():
        # raises an error if a study names numbers that are not in the papers
        published_numbers(study, PUBLISHED)
        protocols[name] = committed_protocol(name, study.protocol, checkout=CHECKOUT)
except UserError as error:
    raise WorkflowError(f"The configuration is invalid.\n{error}")


def refused(message):
    """Return a function that stops Snakemake with a message, in place of what one of its options
    calls."""

    def stop(*arguments, **options):
        raise WorkflowError(message)

    return stop


def require_whole_outputs():
    """Stop before any job if an option would make Snakemake take missing or incomplete files for
    results."""
    if workflow.execution_settings.keep_incomplete:
        raise WorkflowError(
            "Leave out --keep-incomplete: Snakemake would take what a failed job has written for "
            "finished results."
        )
    outputs = (
        [path for job in workflow.dag.needrun_jobs() for path in job.output]
        if workflow.touch
        else []
    )
    if missing := [path for path in outputs if not os.path.exists(path)]:
        others = f" and {len(missing) - 1} more" if missing[1:] else ""
        raise WorkflowError(
            f"--touch makes no files, and {missing[0]}{others} do not exist. Run Snakemake without "
            "--touch."
        )


if not shutil.which("conda"):
    workflow.archive = workflow.containerize = refused(
        "--archive and --containerize need conda, because they contain the conda environment of "
        "the jobs. Install conda, or, for an image "
        "without it, build envs/Containerfile (docs/cluster.md)."
    )

# For reports, logs and plugins. Jobs that Snakemake starts in other processes resolve the
# configuration again.
config = configuration.resolved()
os.environ[SNAKEMAKE] = str(os.getpid())
if workflow.is_main_process:
    if reason := reason_not_to_unlock():
        workflow.unlock = refused(reason)
    print(describe_lock(), end="", file=sys.stderr)

STUDIES = configuration.studies
COMPUTED = configuration.computed  # studies without training
LISTED = {"figures": registry.figures_by_name, "tables": registry.tables_by_name}
FORMATS = registry.FILES


def any_of(names):
    """Return a wildcard constraint that matches only the given names, or nothing if there are
    none."""
    return "|".join(map(re.escape, sorted(names))) or "(?!)"


def setting(place, **functions):
    """Return a function that looks up a setting, such as {study}/training/threads, by the wildcards
    of a job.

    `functions` return further placeholders of `place`, given the wildcards. Snakemake's lookup()
    searches the whole configuration, slowly.
    """

    def of_job(wildcards):
        names = {name: function(wildcards) for name, function in functions.items()}
        value = config
        for key in place.split("/"):
            value = value[key.format(**wildcards, **names)]
        return value

    return of_job


def protocol_of(wildcards):
    """Return the committed protocol of a study; None if it has none."""
    return protocols[wildcards.study]


def experiment_settings(wildcards):
    """Return the settings that determine the results of a study's experiments."""
    return COMPUTED[wildcards.study].experiment_settings


def growing(section, gpus=None, **functions):
    """Return a job's resources from a section of the configuration; memory and time are multiplied
    by the attempt number.

    `gpus` returns the number of GPUs, given the wildcards. $TRUENEG_GRES, such as gpu:a100, is for
    clusters that take --gres, not --gpus.
    """

    def of_attempt(key):
        first = setting(f"{section}/{key}", **functions)

        def attempted(wildcards, attempt):
            return first(wildcards) * attempt

        return attempted

    def gres(wildcards):
        return f"{GRES}:{gpus(wildcards)}" if gpus(wildcards) else None

    resources = {key: of_attempt(key) for key in ("mem_mb", "runtime")}
    return resources | ({"gres": gres} if GRES else {"gpu": gpus}) if gpus else resources


def drawn(kind, studies, ending=None):
    """Return the paths of the given studies' figures or tables in their first format or another."""
    return [
        f"results/{study}/{kind}/{name}.{ending or FORMATS[kind][0]}"
        for study in studies
        for name in LISTED[kind](STUDIES[study])
    ]


wildcard_constraints:
    study=any_of(STUDIES),
    dataset="[^/]+",
    objective="[^/]+",
    block="seed[0-9+-]+",
    corpus="[^/]+",
    model="[A-Za-z][A-Za-z0-9_.+-]*",
    shard="[0-9]+",
    pairs="[a-z0-9_]+-[0-9]+px-[0-9a-f]+",
    texts="[a-z0-9_]+-[0-9a-f]+",
    features="[a-z_]+-(images|texts)-[0-9a-f]+",
