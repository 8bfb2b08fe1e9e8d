"""Commands that only look: recognised by their programs and options, not by their spelling.

A line counts if it consists of plain words, pipes and lists (`read_commands`), and each of its
commands is a program that changes nothing with the options it is given. What is not known counts
as changing something. This only saves questions: the sandbox is what protects.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from amplifier_sandbox.own.command_lines import UnreadableLineError, read_commands


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# These read files or their input, and write to their output, whatever they are given.
_ALWAYS = _words(
    "[ arch basename cat cd cksum cmp column comm cut df diff dirname du echo expand expr false fmt"
    " fold free groups head hexdump id join jq locale ls lsblk lscpu md5sum nl nm nproc objdump od"
    " paste pgrep pidof printenv ps pwd readelf readlink realpath rev seq sha1sum sha256sum"
    " sha512sum size stat strings sum tac tail test tr true tsort tty uname unexpand uptime wc"
    " whereis which who whoami zcat"
)
# These only look unless they are given one of the options.
_UNLESS = {
    "date": _words("-s --set"),
    "egrep": _words(""),
    "fgrep": _words(""),
    "file": _words("-C --compile"),
    "find": _words("-delete -exec -execdir -ok -okdir -fls -fprint -fprint0 -fprintf"),
    "grep": _words(""),
    "less": _words("-o -O --log-file --LOG-FILE"),
    "rg": _words("--pre --hostname-bin"),
    "sort": _words("-o --output --compress-program"),
    "tree": _words("-o"),
}
_GIT_READS = _words(
    "blame cat-file check-attr check-ignore count-objects describe diff diff-tree for-each-ref grep"
    " log ls-files ls-tree merge-base name-rev rev-list rev-parse shortlog show show-ref status"
    " var version whatchanged"
)
# These list something if they are given nothing but these words.
_GIT_LISTS = {
    "branch": _words("-a -r -v -vv --all --list --remotes --show-current --verbose"),
    "remote": _words("-v --verbose"),
    "stash": _words("list"),
    "tag": _words("-l --list"),
    "worktree": _words("list"),
}
# Without a word, these change something.
_GIT_NEEDS_WORD = _words("stash worktree")
# Options of git that write a file or run a program.
_GIT_ACTS = _words(
    "-c -O --exec-path --ext-diff --filters --open-files-in-pager --output --textconv"
)
_VERSIONS = (["--version"], ["-V"], ["version"], ["-version"])
_XARGS_ALONE = _words("-0 -r --null --no-run-if-empty")
_XARGS_WITH_VALUE = _words("-I -L -P -d -n")
# For others, `-v` means that they say more about what they do.
_VERSION_BY_V = _words("cmake gcc make node npm npx php pnpm ruby yarn")


def is_reading(line: str) -> bool:
    """Whether a command line is known to change nothing."""
    try:
        commands = read_commands(line)
    except UnreadableLineError:
        return False
    return bool(commands) and all(
        _reads(each.program, [word.text for word in each.args]) for each in commands
    )


def _reads(program: str, args: Sequence[str]) -> bool:
    if list(args) in _VERSIONS and "/" not in program:
        return True
    if list(args) == ["-v"] and program in _VERSION_BY_V:
        return True
    special = _SPECIAL.get(program)
    if special is not None:
        return special(args)
    if program in _UNLESS:
        return not _has(args, _UNLESS[program])
    return program in _ALWAYS


def _has(args: Sequence[str], options: frozenset[str]) -> bool:
    """Whether an option is given: alone, with a value, or as a letter among others."""
    letters = {each[1] for each in options if len(each) == 2}
    for arg in args:
        if arg.partition("=")[0] in options:
            return True
        if arg.startswith("-") and not arg.startswith("--") and letters.intersection(arg[1:]):
            return True
    return False


def _git(args: Sequence[str]) -> bool:
    words = [each for each in args if each != "--no-pager"]
    if not words or any(each.partition("=")[0] in _GIT_ACTS for each in words):
        return False
    command = words[0]
    rest = words[1:]
    if command not in _GIT_LISTS:
        # `-O` may have its value in the same word.
        return command in _GIT_READS and not any(each.startswith("-O") for each in rest)
    if command in _GIT_NEEDS_WORD and not rest:
        return False
    return all(each in _GIT_LISTS[command] for each in rest)


def _sed(args: Sequence[str]) -> bool:
    """Only `sed -n` with a script that prints lines: scripts can write files and run programs."""
    plain = [each for each in args if not each.startswith("-")]
    options = [each for each in args if each.startswith("-")]
    return options == ["-n"] and bool(plain) and set(plain[0]) <= set("0123456789,$p;")


def _uniq(args: Sequence[str]) -> bool:
    """A second file is written to."""
    return sum(not each.startswith("-") for each in args) <= 1


def _env(args: Sequence[str]) -> bool:
    """Alone it prints variables, else it runs a program."""
    return not args


def _xargs(args: Sequence[str]) -> bool:
    """Only programs that change nothing whatever they are given: the input may be options."""
    rest = list(args)
    while rest and rest[0].startswith("-"):
        option = rest.pop(0)
        if option in _XARGS_WITH_VALUE and rest:
            rest.pop(0)
        elif option not in _XARGS_ALONE:
            return False
    return not rest or rest[0] in _ALWAYS or _UNLESS.get(rest[0]) == frozenset()


_SPECIAL: dict[str, Callable[[Sequence[str]], bool]] = {
    "env": _env,
    "git": _git,
    "sed": _sed,
    "uniq": _uniq,
    "xargs": _xargs,
}
