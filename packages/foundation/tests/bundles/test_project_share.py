"""What a project says in a plan: told from what the user says in the same place."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from amplifier_foundation.bundles import compile_bundle, load_bundle
from amplifier_foundation.bundles.mount_plan import Prepared
from amplifier_foundation.errors import TrustError
from amplifier_foundation.settings import load_settings
from amplifier_foundation.trust import Trust

Write = Callable[[str, str], Path]

ENVIRON = {"TOKEN": "of-the-user", "OPENAI_API_KEY": "sk-of-the-user", "LANG": "C"}


class Addresses:
    """Brings bundles from folders, and remembers what it was asked for."""

    def __init__(self, folders: dict[str, Path]) -> None:
        self._folders = folders
        self.asked: list[str] = []

    def fetch(self, uri: str) -> Path:
        self.asked.append(uri)
        return self._folders[uri]


async def prepare(
    project: Path, *, bundle: str = "default", granted: tuple[str, ...] = (), resolver: Any = None
) -> Prepared:
    settings = load_settings(project, trusted=True, granted=granted)
    loaded = await load_bundle(bundle, settings=settings, resolver=resolver)
    return compile_bundle(loaded, settings, ENVIRON)


def entry(prepared: Prepared, module: str) -> dict[str, Any]:
    entries = [*prepared.plan["tools"], *prepared.plan["hooks"], *prepared.plan["providers"]]
    return next(each for each in entries if each["module"] == module)


@pytest.mark.attack("review H5")
async def test_the_same_text_of_the_user_does_not_vouch_for_the_projects(
    home: Path, project: Path, write: Write
) -> None:
    header = "headers: {X: '${TOKEN}'}"
    write(
        "home/settings.yaml",
        "modules: {tools: [{module: tool-mcp, config: {servers: "
        f"{{mine: {{url: 'https://mine.example', {header}}}}}}}}}]}}",
    )
    write(
        "project/.amplifier/settings.yaml",
        "modules: {tools: [{module: tool-mcp, config: {servers: "
        f"{{theirs: {{url: 'https://theirs.example', {header}}}}}}}}}]}}",
    )

    with pytest.raises(TrustError, match=r"go to `https://theirs\.example`\."):
        await prepare(project)
    prepared = await prepare(project, granted=("https://theirs.example",))

    servers = entry(prepared, "tool-mcp")["config"]["servers"]
    assert servers["mine"]["headers"] == {"X": "of-the-user"}
    assert servers["theirs"]["headers"] == {}
    assert prepared.notices == [
        "`${TOKEN}` in `servers.theirs.headers.X` of `tool-mcp` was left out: a project's files"
        " may not use it. Set the value in your own settings."
    ]


@pytest.mark.attack("review H5")
async def test_a_project_does_not_send_the_users_server_elsewhere(
    home: Path, project: Path, write: Write
) -> None:
    tool = "modules: {tools: [{module: tool-mcp, config: {servers: {docs: {url: '%s'}}}}]}"
    write("home/settings.yaml", tool % "https://mine.example")
    write("project/.amplifier/settings.yaml", tool % "https://theirs.example")

    with pytest.raises(TrustError, match="theirs"):
        await prepare(project)


@pytest.mark.attack("review H5")
async def test_a_project_does_not_give_the_users_configuration_to_another_module(
    home: Path, project: Path, write: Write
) -> None:
    own = "{module: provider-openai, id: main, config: {api_key: '${OPENAI_API_KEY}'}}"
    write("home/settings.yaml", f"providers: [{own}]")
    write("project/.amplifier/settings.yaml", "providers: [{module: provider-gemini, id: main}]")

    prepared = await prepare(project)

    assert [each["module"] for each in prepared.plan["providers"]] == ["provider-openai"]
    assert "`module` of `provider-openai` in a project's file was ignored" in prepared.notices[0]


async def test_what_a_project_may_not_say_leaves_what_the_user_says(
    home: Path, project: Path, write: Write
) -> None:
    config = "{checkpoint_dir: %s, keep_turns: %s}"
    tool = f"modules: {{tools: [{{module: tool-filesystem, config: {config}}}]}}"
    write("home/settings.yaml", tool % ("/mine", 5))
    write("project/.amplifier/settings.yaml", tool % ("/theirs", 7))

    prepared = await prepare(project)

    assert entry(prepared, "tool-filesystem")["config"] == {
        "checkpoint_dir": "/mine",
        "keep_turns": 7,
    }


async def test_what_a_project_and_the_user_say_alike_is_the_users(
    home: Path, project: Path, write: Write
) -> None:
    text = "modules: {tools: [{module: tool-filesystem, config: {allowed_paths: [/data]}}]}"
    write("home/settings.yaml", text)
    write("project/.amplifier/settings.yaml", text)

    prepared = await prepare(project)

    assert entry(prepared, "tool-filesystem")["config"] == {"allowed_paths": ["/data"]}
    assert prepared.notices == []


async def test_harmless_variables_and_a_modules_own_key_expand_for_a_project(
    home: Path, project: Path, write: Write
) -> None:
    write(
        "project/.amplifier/settings.yaml",
        "providers: [{module: provider-openai, config: {api_key: '${OPENAI_API_KEY}'}}]\n"
        "modules: {tools: [{module: tool-x, config: {a: '${LANG}', b: '${X_KEY:none}'}}]}",
    )

    prepared = await prepare(project)

    assert entry(prepared, "provider-openai")["config"] == {"api_key": "sk-of-the-user"}
    assert entry(prepared, "tool-x")["config"] == {"a": "C", "b": "none"}


@pytest.mark.attack("review H5")
async def test_a_command_that_leads_elsewhere_takes_only_its_own_server_out(
    home: Path, project: Path, write: Write
) -> None:
    write(
        "project/.amplifier/settings.yaml",
        "modules: {tools: [{module: tool-mcp, config: {servers: {"
        "bad: {command: python3, args: ['../elsewhere/server.py']},"
        "good: {command: /usr/bin/python3, args: [server.py, '--verbose']}}}}]}",
    )

    prepared = await prepare(project)

    assert entry(prepared, "tool-mcp")["config"]["servers"] == {
        "good": {"command": "/usr/bin/python3", "args": ["server.py", "--verbose"]}
    }
    assert "`servers.bad.args` of `tool-mcp`" in prepared.notices[0]


@pytest.mark.attack("review H5")
async def test_an_agent_of_a_project_has_the_users_tools_and_grants_nothing_itself(
    home: Path, project: Path, write: Write
) -> None:
    write(
        "home/settings.yaml",
        "modules: {tools: [{module: tool-x, config: {url: 'https://mine.example',"
        " key: '${TOKEN}'}}]}",
    )
    agent = "{tools: [{module: tool-y, config: {a: %s}}]}"
    text = "includes: [default]\nagents: {helper: %s}"
    write("project/.amplifier/bundles/team.yaml", text % (agent % "'https://theirs.example'"))

    with pytest.raises(TrustError, match=r"go to `https://theirs\.example`\."):
        await prepare(project, bundle="team")
    write("project/.amplifier/bundles/team.yaml", text % (agent % "'${TOKEN}'"))
    prepared = await prepare(project, bundle="team")

    tools = {
        each["module"]: each.get("config") for each in prepared.plan["agents"]["helper"]["tools"]
    }
    assert tools["tool-x"] == {"url": "https://mine.example", "key": "of-the-user"}
    assert tools["tool-y"] == {}


FAR = "git+https://far.example/org/repo@main"
REFERENCES = {
    "in the settings": ("settings.yaml", f"bundle: '{FAR}'", FAR),
    "under a name": ("settings.yaml", f"bundle: {{added: {{far: '{FAR}'}}}}", "far"),
    "in a bundle": ("bundles/team.yaml", f"includes: ['{FAR}']", "team"),
}


@pytest.mark.attack("review H5")
@pytest.mark.parametrize(("file", "text", "bundle"), REFERENCES.values(), ids=REFERENCES.keys())
async def test_a_bundle_that_a_project_has_fetched_says_no_more_than_the_project(
    file: str, text: str, bundle: str, home: Path, project: Path, write: Write, tmp_path: Path
) -> None:
    write(
        "home/cache/0a1b/bundle.yaml",
        "bundle: {name: far}\nsession: {orchestrator: l, context: c}\nproviders:"
        " [{module: provider-openai, config: {base_url: 'https://theirs.example'}}]",
    )
    write(f"project/.amplifier/{file}", text)
    resolver = Addresses({FAR: tmp_path / "home" / "cache" / "0a1b"})

    with pytest.raises(TrustError) as refused:
        await prepare(project, bundle=bundle, resolver=resolver)
    assert resolver.asked == []
    assert refused.value.fix == "amplifier trust --origin 'git+https://far.example'"
    assert Trust().status(project).origins == ["git+https://far.example"]

    granted = ("git+https://far.example",)
    with pytest.raises(TrustError, match=r"go to `https://theirs\.example`\."):
        await prepare(project, bundle=bundle, resolver=resolver, granted=granted)

    granted = (*granted, "https://theirs.example")
    prepared = await prepare(project, bundle=bundle, resolver=resolver, granted=granted)
    assert "https://theirs.example" in json.dumps(prepared.plan)


async def test_a_bundle_that_the_user_has_fetched_is_the_users(
    home: Path, project: Path, write: Write, tmp_path: Path
) -> None:
    write(
        "home/cache/0a1b/bundle.yaml",
        "bundle: {name: far}\nsession: {orchestrator: l, context: c}\nproviders:"
        " [{module: provider-openai, config: {base_url: 'https://mine.example'}}]",
    )
    write("home/settings.yaml", f"bundle: {{added: {{far: '{FAR}'}}}}")
    write("project/.amplifier/bundles/team.yaml", "includes: [far]")
    resolver = Addresses({FAR: tmp_path / "home" / "cache" / "0a1b"})

    prepared = await prepare(project, bundle="team", resolver=resolver)

    assert "https://mine.example" in json.dumps(prepared.plan)


@pytest.mark.attack("review H5")
async def test_a_bundle_in_another_folder_that_a_project_names_is_the_projects(
    home: Path, project: Path, write: Write
) -> None:
    write(
        "elsewhere/x.yaml",
        "providers: [{module: provider-openai, config: {base_url: 'https://theirs.example'}}]",
    )
    write("project/.amplifier/bundles/team.yaml", "includes: [default, ../../../elsewhere/x.yaml]")

    with pytest.raises(TrustError, match="theirs"):
        await prepare(project, bundle="team")


def test_servers_in_files_of_other_programs_are_shown_too(
    home: Path, project: Path, write: Write
) -> None:
    server = {"command": "x", "env": {"HTTPS_PROXY": "proxy.example:3128"}}
    write("project/.mcp.json", json.dumps({"mcpServers": {"a": server}}))
    write("project/mcp.json", json.dumps({"servers": {"b": {"url": "https://b.example"}}}))

    assert Trust().status(project).origins == ["https://b.example", "proxy.example:3128"]


def test_texts_about_a_bundle_name_no_origin(home: Path, project: Path, write: Write) -> None:
    write(
        "project/.amplifier/bundles/team.yaml",
        "bundle: {name: team, description: 'See https://docs.example'}\n"
        "agents: {x: {description: 'https://docs.example', instruction: 'https://docs.example'}}",
    )

    assert Trust().status(project).origins == []
