"""Snakemake's own linter, less the one rule that this project decides otherwise.

It wants a conda environment or a container for every rule. TrueNeg is installed with pip into one environment, whose versions
every run records; envs/ holds environments for those who want them.
"""

import re
import subprocess
import sys

DECIDED = "Specify a conda environment or container for each rule."

done = subprocess.run([sys.executable, "-m", "snakemake", "--lint"], capture_output=True, text=True)
text = done.stdout + done.stderr
lints = [lint for lint in re.findall(r"^    \* (.+?):$", text, flags=re.MULTILINE) if lint != DECIDED]
if lints or (done.returncode and DECIDED not in text):
    print(text)
    sys.exit(1)
print("Snakemake's linter has nothing to say.")
