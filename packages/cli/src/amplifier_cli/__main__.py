"""`python -m amplifier_cli` is the `amplifier` command."""

import sys

if not sys.flags.safe_path:
    # Python looks for everything in this folder first, and its files are not ours to run.
    del sys.path[0]

from amplifier_cli.entry import main

main()
