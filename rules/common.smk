# The configuration, checked, and the plan that the rules ask. Nothing here imports torch or looks at this machine's devices.

from pathlib import Path

import yaml
from snakemake.exceptions import WorkflowError
from snakemake.utils import update_config

from trueneg.errors import UserError
from trueneg.jobs import name_snakemake
from trueneg.report import catalogue
from trueneg.study import provenance
from trueneg.study.plan import Plan, stale_message
from trueneg.study.reading import load_configuration
from trueneg.study.store import RunStore

DEFAULT = Path(workflow.basedir) / "config" / "config.yaml"
PUBLISHED = Path(workflow.basedir) / "config" / "published.csv"


def given_configuration():
    """What the command line gives; the embedded default comes first only where no --configfile is given."""
    if workflow.configfiles:
        return config, ", ".join(str(path) for path in workflow.configfiles)
    merged = yaml.safe_load(DEFAULT.read_text())
    update_config(merged, config)
    return merged, "config/config.yaml"


try:
    plan = Plan(load_configuration(*given_configuration()))
except UserError as error:
    raise WorkflowError(f"The configuration cannot be used.\n{error}")

name_snakemake()


wildcard_constraints:
    study=plan.pattern(plan.studies),
    dataset="[^/]+",
    objective="[^/]+",
    block="seed[0-9+-]+",
    figure="[a-z_]+",
    table="[a-z_]+",
    corpus="[^/]+",
    model="[A-Za-z][A-Za-z0-9_.+-]*",
