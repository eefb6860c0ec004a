"""Run the ``trueneg`` command with ``python -m trueneg``."""

import sys

from trueneg.cli.main import main

sys.exit(main())
