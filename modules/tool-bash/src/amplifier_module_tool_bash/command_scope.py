"""Which commands one answer can be about: a program, or a sub-command of it, with any arguments.

Only a line that is one command of plain words has such a scope. A program that runs what it is
given has none: its arguments could be any other command. This only saves questions: the sandbox
is what protects, and what a command needs beyond it is granted apart.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from amplifier_sandbox.own.command_lines import UnreadableLineError, Word, read_one_command


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Programs that run their arguments or their input, that an option makes do so, or that delete.
_ONLY_EXACTLY = _words(
    "R Rscript asdf awk aws-vault bash bb bpython bunx busybox bwrap catchsegv cd chpst"
    " chroot chrt compgen complete concurrently cross-env csh dash dbus-run-session dd deno"
    " direnv doas docker dotenv ed emacs entr env erl ex expect fakeroot faketime fd find"
    " firejail fish flock fnm gawk gdb ghci git-shell groovy gtimeout hyperfine iex ionice"
    " ipython irb jshell julia ksh ld.so less lldb ltrace lua m4 man mawk mise mksh more nc"
    " ncat nice nodemon nohup npx nsenter numactl nvm op osascript parallel perf pipx pkexec"
    " pnpx podman powershell prlimit proot pwsh pyenv rbenv rlwrap rm rmdir rsync runuser"
    " scala screen script sed setarch setpriv setsid sh shred socat sqlite3 ssh sshpass stdbuf"
    " strace su sudo swift systemd-run tar taskset tclsh tee tig timeout tmux unbuffer unshare"
    " uvx valgrind vi view vim volta watch winpty xargs xvfb-run yes zip zsh"
)
# Programs whose first word says what they do.
_WITH_SUBCOMMAND = _words(
    "brew bun bundle cargo composer conda dotnet gem gh git go hatch helm kubectl mamba micromamba"
    " mix npm pdm pip pip3 pipenv pnpm poetry rails rustup rye terraform uv yarn"
)
# Sub-commands that run what they are given.
_RUNNERS = {
    "bun": _words("exec x"),
    "cargo": _words("install"),
    "conda": _words("run"),
    "gh": _words("alias extension"),
    "git": _words(
        "bisect clean config daemon difftool filter-branch hook mergetool rebase reset send-email"
        " submodule"
    ),
    "go": _words("generate tool vet"),
    "kubectl": _words("debug exec run"),
    "mamba": _words("run"),
    "micromamba": _words("run"),
    "npm": _words("exec explore init x"),
    "pnpm": _words("create dlx exec"),
    "rails": _words("runner"),
    "rustup": _words("run"),
    "uv": _words("tool"),
    "yarn": _words("create dlx exec"),
}
# Sub-commands after which another program is named, to which all of this applies again.
_BEFORE_PROGRAM = {
    "bundle": "exec",
    "hatch": "run",
    "pdm": "run",
    "pipenv": "run",
    "poetry": "run",
    "rye": "run",
    "uv": "run",
}
# Programs whose first word is a file to run; with an option, they may run a text.
_INTERPRETER = re.compile(r"(?:python|pypy|perl|ruby|php|lua|node|ts-node|tsx)[0-9.]*")
_PYTHON = re.compile(r"(?:python|pypy)[0-9.]*")
# Modules that run what they are given.
_RUNNING_MODULES = _words("asyncio bdb cProfile code idlelib pdb profile runpy timeit trace zipapp")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*")
_FILE = re.compile(r"[A-Za-z0-9_.][A-Za-z0-9_./+-]*")


def command_scope(line: str) -> str | None:
    """Return the words by which a command line begins, and which say what it runs.

    None if such a line can only be allowed exactly.
    """
    try:
        command = read_one_command(line.strip(" \t"))
    except UnreadableLineError:
        return None
    found = _scope([Word(command.program), *command.args])
    return None if found is None else " ".join(found)


def _scope(words: Sequence[Word]) -> list[str] | None:
    program = _plain(words, 0, _NAME)
    if program is None or program in _ONLY_EXACTLY:
        return None
    if _INTERPRETER.fullmatch(program):
        return _interpreted(program, words)
    if program not in _WITH_SUBCOMMAND:
        return [program]
    sub_command = _plain(words, 1, _NAME)
    if sub_command is None or sub_command in _RUNNERS.get(program, ()):
        return None
    if _BEFORE_PROGRAM.get(program) == sub_command:
        rest = _scope(words[2:])
        return None if rest is None else [program, sub_command, *rest]
    return [program, sub_command]


def _interpreted(program: str, words: Sequence[Word]) -> list[str] | None:
    if _PYTHON.fullmatch(program) and len(words) > 1 and words[1] == Word("-m"):
        module = _plain(words, 2, _NAME)
        if module is None or module.partition(".")[0] in _RUNNING_MODULES:
            return None
        return [program, "-m", module]
    script = _plain(words, 1, _FILE)
    return None if script is None else [program, script]


def _plain(words: Sequence[Word], at: int, form: re.Pattern[str]) -> str | None:
    """Return a word that is written out, and no option."""
    if len(words) <= at or words[at].is_pattern or not form.fullmatch(words[at].text):
        return None
    return words[at].text
