"""`python -m smelt` is `smelt`."""

import sys

from smelt.cli import main

sys.exit(main())
