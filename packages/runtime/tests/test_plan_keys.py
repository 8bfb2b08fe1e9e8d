"""Keys of plans: references are found where they may be, and nothing that was found is stored."""

from __future__ import annotations

import asyncio
import json
import logging
from pathlib import Path
from typing import Any

import pytest
from cryptography.fernet import Fernet
from hypothesis import given
from hypothesis import strategies as st

from amplifier_runtime.children.children import Children
from amplifier_runtime.client import Client
from amplifier_runtime.database.database import Database, all_of, execute
from amplifier_runtime.database.plan_references import clear_keys_in, mapped, refuse_clear_keys
from amplifier_runtime.database.secret_store import KEY_VARIABLE, SHARED, SecretStore, new_key
from amplifier_runtime.errors import ClearKeyError, MissingKeyError, SecretsError
from amplifier_runtime.log.session_log import SessionLog
from amplifier_runtime.log.stored import read_log
from amplifier_runtime.turns.plan_keys import PlanKeys
from amplifier_runtime.worker.worker import Worker, WorkerSettings

CANARY = "canary0f1e2d3c4b5a6978"
SESSION = {"orchestrator": "loop-basic", "context": "context-simple"}


@pytest.fixture
def secrets_key(monkeypatch: pytest.MonkeyPatch) -> str:
    key = new_key()
    monkeypatch.setenv(KEY_VARIABLE, key)
    return key


@pytest.fixture
def no_keys(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Let this machine have no keys of its own."""
    monkeypatch.setenv("AMPLIFIER_HOME", str(tmp_path))


@pytest.mark.parametrize(
    "config",
    [
        {"api_key": "${NAME}"},
        {"api_key": "secret:NAME"},
        {"api_key": "ollama"},
        {"api_key": ""},
        {"headers": {"Authorization": "Bearer ${NAME}", "X-Trace": "on-1234567890"}},
        {"env": {"DB": "postgresql://me:${PASSWORD}@db/x"}},
        {"max_tokens": 4_096, "token_budget": "1234567890"},
        {"base_url": "http://localhost:8080/v1"},
        {"script": ["echo ${HOME} 1234567890abcdef"]},
    ],
)
def test_a_plan_without_a_key_in_clear_is_accepted(config: dict[str, Any]) -> None:
    refuse_clear_keys({"providers": [{"module": "x", "config": config}]})


def test_the_refusal_says_where_and_never_what() -> None:
    plan = {"providers": [{"module": "x", "config": {"api_key": CANARY, "token": CANARY}}]}
    with pytest.raises(ClearKeyError) as refused:
        refuse_clear_keys(plan)
    assert refused.value.places == ["providers[0].config.api_key", "providers[0].config.token"]
    assert "and 1 more" in str(refused.value)
    assert CANARY not in str(refused.value)
    assert len(str(refused.value).splitlines()) == 3


_VALUES = st.recursive(
    st.sampled_from(["${A}", "Bearer ${A}", "env:A", "plain", "1234567890"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["api_key", "headers", "env", "note"]), inner, max_size=3)
    ),
    max_leaves=12,
)


@given(plan=st.dictionaries(st.sampled_from(["api_key", "headers", "x"]), _VALUES))
def test_what_a_key_is_put_into_is_what_is_looked_at(plan: dict[str, Any]) -> None:
    filled = mapped(plan, lambda text: text.replace("${A}", CANARY).replace("env:A", CANARY))
    # The walk that fills in and the walk that refuses agree on which fields these are.
    assert (filled != plan) == (CANARY in json.dumps(filled))
    assert mapped(filled, lambda text: text.replace(CANARY, "${A}")) == mapped(
        plan, lambda text: text.replace("env:A", "${A}")
    )


@pytest.mark.usefixtures("no_keys")
async def test_references_are_resolved_in_a_copy_and_sealed_again(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLEET_KEY", CANARY)
    config = {"api_key": "env:FLEET_KEY", "headers": {"Authorization": "Bearer ${FLEET_KEY}"}}
    plan: dict[str, Any] = {
        "providers": [{"module": "x", "config": config}],
        "note": "${FLEET_KEY}",
    }
    keys = PlanKeys(database, "t")
    resolved = await keys.resolve(plan)
    assert resolved["providers"][0]["config"] == {
        "api_key": CANARY,
        "headers": {"Authorization": f"Bearer {CANARY}"},
    }
    assert resolved["note"] == "${FLEET_KEY}"
    assert plan["providers"][0]["config"] is config
    assert keys.values() == [CANARY]
    assert keys.seal(resolved) == plan
    assert clear_keys_in(resolved) != []


@pytest.mark.usefixtures("secrets_key", "no_keys")
async def test_a_tenant_gets_its_own_secrets_and_those_for_all(database: Database) -> None:
    store = SecretStore(database)
    await store.set(SHARED, "COMMON", "for all")
    await store.set("mine", "COMMON", "mine alone")
    await store.set("mine", "OWN", "own")
    assert await store.read("mine", ["COMMON", "OWN"]) == {"COMMON": "mine alone", "OWN": "own"}
    assert await store.read("theirs", ["COMMON", "OWN"]) == {"COMMON": "for all"}
    with pytest.raises(MissingKeyError, match="amplifier runtime secrets set OWN"):
        await PlanKeys(database, "theirs").resolve({"api_key": "${OWN}"})


@pytest.mark.usefixtures("secrets_key")
async def test_a_row_that_is_copied_to_another_tenant_is_of_no_use(database: Database) -> None:
    store = SecretStore(database)
    await store.set("mine", "KEY", CANARY)
    sql = (
        "INSERT INTO secrets (tenant_id, name, sealed, created_at) "
        "SELECT 'theirs', name, sealed, created_at FROM secrets"
    )
    await database.run(lambda connection: execute(connection, sql))
    with pytest.raises(SecretsError, match="copy"):
        await store.read("theirs", ["KEY"])


async def test_a_key_is_exchanged_without_a_moment_in_which_a_secret_is_lost(
    database: Database, secrets_key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, newer = SecretStore(database), new_key()
    await store.set(SHARED, "KEY", CANARY)
    monkeypatch.setenv(KEY_VARIABLE, f"{newer}, {secrets_key}")
    assert await store.read("t", ["KEY"]) == {"KEY": CANARY}
    assert await store.rotate() == 1
    monkeypatch.setenv(KEY_VARIABLE, newer)
    assert await store.read("t", ["KEY"]) == {"KEY": CANARY}
    monkeypatch.setenv(KEY_VARIABLE, secrets_key)
    with pytest.raises(SecretsError, match="not in"):
        await store.read("t", ["KEY"])


@pytest.mark.parametrize("value", ["", " , ", "not a key"])
async def test_without_a_valid_key_nothing_is_stored(
    database: Database, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    monkeypatch.setenv(KEY_VARIABLE, value)
    with pytest.raises(SecretsError) as refused:
        await SecretStore(database).set(SHARED, "KEY", CANARY)
    assert CANARY not in str(refused.value)
    assert await SecretStore(database).names() == []


@pytest.mark.usefixtures("secrets_key", "no_keys")
@pytest.mark.parametrize("name", [KEY_VARIABLE, "AMPLIFIER_DATABASE_URL"])
@pytest.mark.parametrize("reference", ["${%s}", "env:%s", "secret:%s"])
async def test_the_runtimes_own_keys_are_in_no_plans_reach(
    database: Database, monkeypatch: pytest.MonkeyPatch, name: str, reference: str
) -> None:
    monkeypatch.setenv("AMPLIFIER_DATABASE_URL", "postgresql://me:secret@db/x")
    with pytest.raises(MissingKeyError, match="may not use"):
        await PlanKeys(database, "t").resolve({"api_key": reference % name})


async def test_what_is_stored_of_a_child_refers_to_the_key_of_its_parent(
    url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("FLEET_KEY", CANARY)
    call = {"id": "c1", "name": "task", "arguments": {"agent": "helper", "prompt": "Help."}}
    steps = [{"tool_calls": [call]}, "Done."]
    helper = {
        "description": "helps",
        "providers": [{"module": "provider-steps", "config": {"steps": ["Helped."]}}],
    }
    plan: dict[str, Any] = {
        "session": SESSION,
        "tools": [{"module": "tool-task", "config": {}}],
        "providers": [{"module": "provider-steps", "config": {"steps": steps}}],
        # It does not know this key, and says what it was given.
        "hooks": [{"module": "hooks-logging", "config": {"token": "${FLEET_KEY}"}}],
        "agents": {"helper": helper},
    }
    database, client = Database(url), Client(Database(url), "t")
    settings = WorkerSettings(url, poll_seconds=0.02, parts=[Children(look_seconds=0.05)])
    with caplog.at_level(logging.DEBUG):
        async with Worker(settings), asyncio.timeout(120):
            await client.create_session("root", plan)
            turn = await client.submit("root", "Start.", idempotency_key="k")
            assert (await client.result(turn.turn_id)).answer == "Done."
    plans = await database.run(
        lambda c: [row["plan"] for row in all_of(c, "SELECT plan FROM sessions")]
    )
    assert len(plans) == 2
    assert all("${FLEET_KEY}" in each and CANARY not in each for each in plans)
    assert CANARY not in caplog.text
    database.close()


@pytest.mark.usefixtures("no_keys")
@pytest.mark.parametrize("lacking", ["helper", "root"])
async def test_a_child_without_its_key_fails_and_its_log_has_the_prompt_and_the_end(
    url: str, monkeypatch: pytest.MonkeyPatch, lacking: str
) -> None:
    call = {"id": "c1", "name": "task", "arguments": {"agent": "helper", "prompt": "Help."}}
    steps = [{"tool_calls": [call]}, "{0}"]
    config = {"steps": ["Helped."]}
    agent = {"description": "helps", "providers": [{"module": "provider-steps", "config": config}]}
    plan: dict[str, Any] = {
        "session": SESSION,
        "tools": [{"module": "tool-task", "config": {}}],
        "providers": [{"module": "provider-steps", "config": {"steps": steps}}],
        "agents": {"helper": agent},
    }
    resolve = PlanKeys.resolve

    async def refuse(keys: PlanKeys, given: dict[str, Any]) -> dict[str, Any]:
        """Refuse the plan of the child, or that of its parent when it is opened for the child."""
        providers = given["providers"]
        whose = "helper" if providers and providers[0]["config"] == config else "root"
        if whose == lacking and (whose == "helper" or not providers):
            raise MissingKeyError("CHILD_KEY")
        return await resolve(keys, given)

    monkeypatch.setattr(PlanKeys, "resolve", refuse)
    database = Database(url)
    client = Client(database, "t")
    parts = [SessionLog(database), Children(look_seconds=0.05)]
    async with Worker(WorkerSettings(url, poll_seconds=0.02, parts=parts)), asyncio.timeout(120):
        await client.create_session("root", plan)
        turn = await client.submit("root", "Start.", idempotency_key="k")
        answer = (await client.result(turn.turn_id)).answer
    sql = (
        "SELECT c.session_id, c.stop_reason, t.state FROM children c "
        "JOIN turns t ON t.turn_id = c.turn_id"
    )
    [child] = await database.run(lambda c: list(all_of(c, sql)))
    assert (child["state"], child["stop_reason"]) == ("failed", "error")
    assert "CHILD_KEY" in (answer or "")
    log = await read_log(database, "t", child["session_id"])
    kinds = [record.kind for record in log.written]
    assert "prompt" in kinds
    assert kinds[-1] == "turn.ended"
    database.close()


def test_a_new_key_is_one_that_the_library_takes() -> None:
    assert Fernet(new_key())
