"""What the chat needs is loaded by the chat alone."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize("module", ["amplifier_cli.main", "amplifier_cli.chat.command"])
def test_naming_the_command_loads_neither_rich_nor_prompt_toolkit_nor_the_kernel(
    module: str,
) -> None:
    heavy = ("rich", "prompt_toolkit", "markdown_it", "pygments", "pydantic", "amplifier_core.")
    # The kernel's root is imported for its version, and loads no file of the kernel.
    program = f"import sys, {module}; print([n for n in sys.modules if n.startswith({heavy})])"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"
