"""What a project's files may set in a module's configuration, key by key."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple


class Key(NamedTuple):
    """The kind of a configuration key, which decides what a project may set it to.

    | kind        | what a project may say                                            |
    |-------------|-------------------------------------------------------------------|
    | `address`   | an address that the user has granted, or the module's variable    |
    | `path`      | a path inside the project                                         |
    | `command`   | a program of the system or of the project, and its arguments      |
    | `variables` | names of environment variables that hold no secret                |
    | `secret`    | text; the module's own key expands in it                          |
    | `only`      | one of `values`, which make nothing less safe                     |
    | `lower`     | a number that is not above the user's, else above `values[0]`     |
    | `denials`   | rules that deny; rules that allow or ask are the user's           |
    | `user`      | nothing: only the user's settings and bundles set it              |
    | `text`      | anything; the name of the key says nothing about addresses        |
    """

    kind: str
    values: tuple[Any, ...] = ()


_ADDRESS = Key("address")
_COMMAND = Key("command")
_DENIALS = Key("denials")
_LOWER = Key("lower")
_PATH = Key("path")
_SECRET = Key("secret")
_TEXT = Key("text")
_USER = Key("user")
_VARIABLES = Key("variables")
_NO = Key("only", (False,))
_YES = Key("only", (True,))

_PROVIDER = {
    "api_key": _SECRET,
    "base_url": _ADDRESS,
    "default_model": _TEXT,
    # A price of zero would make any budget worthless.
    "pricing": _USER,
    # Puts whole requests into events, which loggers write to disk.
    "raw": _NO,
    "use_streaming": _TEXT,
}
_LOOP = {
    "default_provider": _TEXT,
    "extended_thinking": _TEXT,
    "max_calls": Key("lower", (128,)),
    "output_schema": _TEXT,
    "parallel_calls": Key("lower", (8,)),
    "tool_timeouts": _TEXT,
}
_MEMORY = {"auto_compact": _YES, "instructions": _USER, "mark_dropped": _TEXT}

# Keys with numbers are not listed, unless a larger or smaller number is less safe. `*` is any name
# that the user chooses; a kind applies to everything below its key.
MODULE_KEYS: dict[str, dict[str, Key]] = {
    "context-persistent": {
        **_MEMORY,
        "blank_secrets": _YES,
        "fsync": _TEXT,
        "path": _PATH,
        "takeover": _NO,
    },
    "context-simple": _MEMORY,
    "context-summarizing": {
        **_MEMORY,
        "pinned": _TEXT,
        "summary_model": _TEXT,
        "summary_provider": _TEXT,
    },
    "hooks-approval": {
        "classes": Key("only", ("deny",)),
        "default": Key("only", ("deny",)),
        "grants_file": _USER,
        "headless": Key("only", ("deny",)),
        "mode": Key("only", ("ask", "plan")),
        "open": _USER,
        "remember_scope": Key("only", ("session",)),
        "remember_seconds": Key("lower", (28_800,)),
        "rules": _DENIALS,
    },
    "hooks-budget": {
        "breadth": _LOWER,
        "child_share": Key("lower", (0.5,)),
        "composite_providers": _USER,
        "depth": _LOWER,
        "prices": _USER,
        "seconds": _LOWER,
        "settle": Key("only", ("worst_case",)),
        "steps": _LOWER,
        "tokens": _LOWER,
        "unknown_price": Key("only", ("refuse",)),
        "usd": _LOWER,
    },
    # Functions are imported: naming one runs its module.
    "hooks-functions": {"deps": _USER, "functions": _USER},
    "hooks-logging": {"events": _TEXT, "exclude": _USER, "path": _PATH},
    "hooks-otel": {
        "agent_name": _TEXT,
        "capture_content": _NO,
        "otlp.endpoint": _ADDRESS,
        "otlp.service_name": _TEXT,
    },
    "hooks-redaction": {"events": _TEXT, "secrets_in_tool_input": Key("only", ("refuse",))},
    "hooks-taint": {
        "by": Key("only", ("origin",)),
        "exempt_arguments": _USER,
        "shared_characters": Key("lower", (24,)),
        "trusted_tools": _USER,
    },
    "loop-basic": _LOOP,
    "loop-events": _LOOP,
    "loop-streaming": _LOOP,
    "provider-anthropic": {
        **_PROVIDER,
        "api_version": _TEXT,
        "betas": _TEXT,
        "extended_thinking": _TEXT,
        "prompt_caching": _TEXT,
        "reasoning_effort": _TEXT,
    },
    "provider-chat-completions": {
        **_PROVIDER,
        "extra_body": _TEXT,
        "late_system_role": _TEXT,
        "max_tokens_field": _TEXT,
        "name": _TEXT,
        "send_reasoning": _TEXT,
        "stream_usage": _TEXT,
    },
    "provider-failover": {"models": _TEXT, "providers": _TEXT, "switch_on": _TEXT},
    "provider-functions": {"function": _USER},
    "provider-gemini": {**_PROVIDER, "api_version": _TEXT, "reasoning_effort": _TEXT},
    "provider-mock": {
        "after_script": _TEXT,
        "mode": _TEXT,
        "model": _TEXT,
        "replay_file": _PATH,
        "script": _TEXT,
        "stream": _TEXT,
    },
    "provider-openai": {
        **_PROVIDER,
        "reasoning_effort": _TEXT,
        "reasoning_summary": _TEXT,
        "use_prompt_cache_key": _TEXT,
    },
    "tool-bash": {
        "allow": _USER,
        "ask": _YES,
        # The disk space to leave free: less is less safe.
        "keep_free_bytes": _USER,
        "max_disk_bytes": Key("lower", (10 * 1024**3,)),
        "memory_bytes": Key("lower", (2 * 1024**3,)),
        "network": _NO,
        "parallel_commands": Key("lower", (8,)),
        "pass_env": _VARIABLES,
        "processes": Key("lower", (256,)),
        "protected_paths": _USER,
        "read_only_paths": _PATH,
        "sandbox": Key("only", ("required",)),
        "toolchains": _NO,
        "working_dir": _PATH,
        # The workspace is writable anyway, except for what is protected in it.
        "writable_paths": _USER,
    },
    "tool-filesystem": {
        "allowed_paths": _PATH,
        "checkpoint_dir": _USER,
        "working_dir": _PATH,
    },
    "tool-functions": {"deps": _USER, "functions": _USER},
    "tool-mcp": {
        # Has the approved definitions of tools: a project could bring its own approvals.
        "seen_file": _USER,
        "servers.*.args": _COMMAND,
        "servers.*.command": _COMMAND,
        "servers.*.cwd": _PATH,
        "servers.*.env_pass": _VARIABLES,
        "servers.*.headers": _TEXT,
        "servers.*.network": _NO,
        "servers.*.read_only_paths": _PATH,
        "servers.*.sandbox": Key("only", ("auto", "required")),
        "servers.*.trust": _NO,
        "servers.*.url": _ADDRESS,
        "servers.*.writable_paths": _USER,
    },
    "tool-search": {"working_dir": _PATH},
    "tool-skills": {"paths": _PATH, "trust_project": _TEXT, "working_dir": _PATH},
    "tool-task": {"hand_down": _USER, "notify": _TEXT},
    "tool-todo": {},
    "tool-web": {
        "allow_hosts": _ADDRESS,
        "ports": _USER,
        "search.headers": _TEXT,
        "search.keys": _TEXT,
        "search.results": _TEXT,
        "search.url": _ADDRESS,
    },
}

# The variables that belong to a module: its keys expand in a `secret`, its addresses in an
# `address`, in a project's file too.
MODULE_VARIABLES: dict[str, tuple[str, ...]] = {
    "provider-anthropic": ("ANTHROPIC_API_KEY",),
    "provider-chat-completions": ("OPENAI_API_KEY", "OPENAI_BASE_URL"),
    "provider-gemini": ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    "provider-openai": ("OPENAI_API_KEY", "OPENAI_BASE_URL"),
}


def key_of(module: str | None, path: tuple[str, ...]) -> Key | None:
    """Return the kind of a module's key, else of the nearest key above it; None if unknown."""
    keys = MODULE_KEYS.get(module or "", {})
    for length in range(len(path), 0, -1):
        for pattern, key in keys.items():
            parts = pattern.split(".")
            fits = zip(parts, path, strict=False)
            if len(parts) == length and all(part in ("*", name) for part, name in fits):
                return key
    return None


USER_ONLY = "only your own settings may say that."
_OUTSIDE = "it leads out of the project; your own settings may say that."
_MAY_HOLD_SECRET = "it may hold a secret; your own settings may pass it on."

# Variables that never have a secret or an address. Any other might: its name proves nothing.
_HARMLESS = frozenset(
    [
        "AMPLIFIER_HOME",
        "CI",
        "COLORTERM",
        "EDITOR",
        "HOME",
        "HOSTNAME",
        "LANG",
        "LANGUAGE",
        "LOGNAME",
        "NO_COLOR",
        "PAGER",
        "PWD",
        "SHELL",
        "TERM",
        "TMPDIR",
        "TZ",
        "USER",
        "VISUAL",
    ]
)
_HARMLESS_NAME = re.compile(r"LC_[A-Z]+|XDG_[A-Z]+_(?:HOME|DIR|DIRS)")
# Where a system keeps its programs; a project's command may name one of them by its path.
_OF_SYSTEM = tuple(Path(each) for each in ("/usr", "/bin", "/sbin", "/opt"))


def may_use(name: str, module: str | None, key: Key | None) -> bool:
    """Return whether a variable expands in a value of a project's file.

    It does if it is harmless, or belongs to the module: for our modules, in the keys that are
    meant for it; for others, if it begins with the module's name.
    """
    if _is_harmless(name):
        return True
    if module is None:
        return False
    if module in MODULE_KEYS:
        ending = {"secret": "_KEY", "address": "_URL"}.get("" if key is None else key.kind)
        owned = name in MODULE_VARIABLES.get(module, ())
        return owned and ending is not None and name.endswith(ending)
    own = module.partition("-")[2].replace("-", "_").upper()
    return bool(own) and name.startswith(f"{own}_")


def why_withheld(key: Key, value: Any, own: Any, project: Path) -> str | None:
    """Return why a project's value is not used, or None if it is used.

    `own` is the user's value in the same place.
    """
    if key.kind == "user":
        return USER_ONLY
    if key.kind == "only":
        return None if value in key.values else USER_ONLY
    if key.kind == "lower":
        return None if _is_lower(value, own, key.values) else USER_ONLY
    if key.kind == "path" and isinstance(value, str):
        return _OUTSIDE if _leaves(value, project) else None
    if key.kind == "command" and isinstance(value, str):
        return _OUTSIDE if _names_other_code(value, project) else None
    if key.kind == "variables":
        return None if isinstance(value, str) and _is_harmless(value) else _MAY_HOLD_SECRET
    return None


def _is_harmless(name: str) -> bool:
    return name in _HARMLESS or _HARMLESS_NAME.fullmatch(name) is not None


def _is_lower(value: Any, own: Any, default: tuple[Any, ...]) -> bool:
    try:
        limit = own if isinstance(own, str | int | float) else default[0] if default else None
        number = float(value)
        return number >= 0 and (limit is None or number <= float(limit))
    except (TypeError, ValueError):
        return False


def _leaves(text: str, project: Path) -> bool:
    """Return whether a path leads out of the project, as written or through a link."""
    if text.startswith("~") or "\0" in text or ".." in Path(text).parts:
        return True
    try:
        real = (project / text).resolve()
        # Git may run what is written below `.git`, such as hooks.
        of_git = ".git" in (part.lower() for part in real.parts)
        return of_git or not real.is_relative_to(project.resolve())
    except (OSError, RuntimeError):
        return True


def _names_other_code(text: str, project: Path) -> bool:
    """Return whether a command, or one of its arguments, is a path out of the project.

    Programs of the system are allowed.
    """
    for part in (text, text.partition("=")[2]):
        path = Path(part)
        if not (part.startswith(("/", "~")) or ".." in path.parts or "/" in part):
            continue
        of_system = ".." not in path.parts and any(path.is_relative_to(e) for e in _OF_SYSTEM)
        if not of_system and "://" not in part and _leaves(part, project):
            return True
    return False
