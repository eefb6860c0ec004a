"""``python -m trueneg``: the same as the command ``trueneg``."""

import sys

from trueneg.cli.main import main

sys.exit(main())
