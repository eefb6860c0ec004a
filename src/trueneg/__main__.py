"""``python -m trueneg``: the same as the command ``trueneg``."""

import sys

from trueneg.command_line import main

sys.exit(main())
