"""Read the configuration that Snakemake was given."""

from pathlib import Path
from typing import Any

from trueneg.config.configuration import Configuration
from trueneg.config.reading import load_configuration, merged_files
from trueneg.specs.sections import Section


def given_configuration(workflow: Any, config: Section, checkout: Path) -> Configuration:
    """Validate a workflow's configuration; without files, that of the checkout.

    The files are read here, because Snakemake knows no ``extends`` and would merge the default into
    other files.

    Args:
        workflow: Snakemake's workflow.
        config: Snakemake's own reading, which a module takes as it is.
        checkout: the folder of the Snakefile.

    Raises:
        UserError: with one sentence per mistake.
    """
    settings = workflow.config_settings
    default = [] if settings.replace_workflow_config else [checkout / "config/config.yaml"]
    files = workflow.overwrite_configfiles or default
    if not workflow.modifier.skip_configfile:
        config = merged_files(files, settings.config)
    return load_configuration(config, ", ".join(map(str, workflow.configfiles or files)))
