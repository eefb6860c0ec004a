# The validated configuration, and functions that the rules share. Nothing here imports torch or
# looks for devices: the plan is the same on a laptop and on the login node of a cluster.

import os
import re
import shlex
import sys
from pathlib import Path

from snakemake.exceptions import WorkflowError

from trueneg.config.reading import load_configuration, merged_files
from trueneg.data.user_files import check_own_table, compare_files, file_parameter
from trueneg.errors import UserError
from trueneg.planning.checkout import require_plain_path
from trueneg.planning.corpora import Corpora
from trueneg.planning.data_inputs import DataInputs
from trueneg.planning.folder_lock import describe_lock, record_owner
from trueneg.planning.job_settings import JobSettings
from trueneg.planning.options import refuse_unsupported, require_whole_outputs
from trueneg.planning.training_jobs import TrainingJobs
from trueneg.report import findings, registry
from trueneg.report.published import published_numbers
from trueneg.runtime.jobs import SNAKEMAKE
from trueneg.store import versions
from trueneg.store.protocol import committed_protocol
from trueneg.store.run_store import RunStore

BEFORE_TRAINING = 10  # priority; training jobs have 1 to 9, and later steps 0
# workflow.basedir is another folder where this workflow is used as a module
CHECKOUT = Path(workflow.current_basedir).parent
PUBLISHED = CHECKOUT / "config/published.csv"
# Snakemake refuses an image whose path has a space, even without containers; the relative path
# rarely has one.
IMAGE = os.path.relpath(CHECKOUT / "trueneg.sif")

refuse_unsupported(workflow, IMAGE, sys.argv[1:] if workflow.is_main_process else [])

# Snakemake runs scripts with this path as part of a shell command, without quotes:
# https://github.com/snakemake/snakemake/issues/2645.
if os.path.exists(sys.executable):  # otherwise quoted already, by another module
    sys.executable = shlex.quote(sys.executable)

# Read here, because Snakemake knows no `extends` and would merge the default into other files; a
# module takes what it is given.
default = CHECKOUT / "config/config.yaml"
files = workflow.overwrite_configfiles or (
    [] if workflow.config_settings.replace_workflow_config else [default]
)

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

# For reports, logs and plugins. Jobs that Snakemake starts in other processes resolve the
# configuration again.
config = configuration.resolved()
os.environ[SNAKEMAKE] = str(os.getpid())
if workflow.is_main_process:
    print(describe_lock(), end="", file=sys.stderr)

STUDIES = configuration.studies
COMPUTED = configuration.computed  # studies without training
LISTED = {"figures": registry.figures_by_name, "tables": registry.tables_by_name}
FORMATS = registry.FILES
setting = JobSettings(config).setting
growing = JobSettings(config).growing


def any_of(names):
    """Return a wildcard constraint for the given names; without names, it matches nothing."""
    return "|".join(map(re.escape, sorted(names))) or "(?!)"


def protocol_of(wildcards):
    """Return the committed protocol of a study; None if it has none."""
    return protocols[wildcards.study]


def experiment_settings(wildcards):
    """Return the settings that determine the results of a study's experiments."""
    return COMPUTED[wildcards.study].experiment_settings


def drawn(kind, studies, ending=None):
    """Return the paths of the given studies' figures or tables, in their first format or another."""
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
