"""What every app needs around the kernel: bundles, sources, settings, sessions on disk, replay.

Importing it checks that the installed kernel is ours. Another distribution has the same name, pip
and uv replace ours with it without asking, and most of the foundation would then fail far from the
cause.
"""

from amplifier_foundation.installation import refuse_foreign_kernel

__version__ = "0.2.0"

refuse_foreign_kernel(__version__)
