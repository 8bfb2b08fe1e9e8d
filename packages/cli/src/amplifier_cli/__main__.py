"""`python -m amplifier_cli` is the `amplifier` command."""

import sys

if not sys.flags.safe_path:
    # `python -m` puts the current folder first on the path. It may be an untrusted clone whose
    # `json.py` would run in place of the standard library's.
    del sys.path[0]

from amplifier_cli.entry import main

main()
