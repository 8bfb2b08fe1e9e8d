"""What goes wrong in a run: workers killed and paused, the database restarted."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from sqlalchemy.exc import SQLAlchemyError

from amplifier_runtime.database.database import Connection, Database, all_of
from amplifier_runtime.database.local_postgres import LocalPostgres
from chaos.fleet import Fleet

_LONGEST_ABSENCE = 0.5
_LONGEST_OUTAGE = 2.0
_LOOK_SECONDS = 0.1


@dataclass(frozen=True)
class Weather:
    """How bad it gets; `restarts` says how the database is stopped, in this order."""

    kill_seconds: float
    pause_seconds: float
    shortest_pause: float
    longest_pause: float
    restarts: tuple[str, ...]
    # Then it is calm: a slow machine ends no turn while its workers are killed every second.
    most_kills: int | None = None


@dataclass(frozen=True)
class Loss:
    """A turn that was running on a worker when that was killed."""

    turn_id: str
    epoch: int
    at: float


@dataclass
class Damage:
    """What was done."""

    kills: int = 0
    pauses: int = 0
    exits: int = 0
    restarts: list[str] = field(default_factory=list[str])
    losses: list[Loss] = field(default_factory=list[Loss])


class Storm:
    """Blows until it is cancelled; `progress` says which share of the turns has ended."""

    def __init__(
        self,
        seed: int,
        weather: Weather,
        fleet: Fleet,
        server: LocalPostgres,
        url: str,
        progress: Callable[[], float],
    ) -> None:
        self.damage = Damage()
        self._seed = seed
        self._weather = weather
        self._fleet = fleet
        self._server = server
        # What cannot be seen at once is not waited for: it would be another moment.
        self._database = Database(url, connections=2, patience_seconds=0.0)
        self._progress = progress

    async def blow(self) -> None:
        """Do damage of all kinds at the same time."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._kill(group))
                group.create_task(self._pause())
                group.create_task(self._restart())
                group.create_task(self._supervise())
        finally:
            self._database.close()

    def _dice(self, name: str) -> random.Random:
        return random.Random(f"{self._seed}/{name}")

    async def _kill(self, group: asyncio.TaskGroup) -> None:
        """Kill one worker at a random instant of each period."""
        dice, period = self._dice("kills"), self._weather.kill_seconds
        begins = time.monotonic()
        most = self._weather.most_kills
        while most is None or self.damage.kills < most:
            instant = begins + dice.uniform(0.0, period)
            await asyncio.sleep(instant - time.monotonic())
            begins += period
            # Drawn whether needed or not, so that later periods do not depend on this one.
            choice, absence = dice.random(), dice.uniform(0.0, _LONGEST_ABSENCE)
            awake = self._fleet.awake()
            if awake:
                slot = awake[int(choice * len(awake))]
                address = self._fleet.address(slot)
                at = self._fleet.kill(slot)
                self.damage.kills += 1
                group.create_task(self._replace(slot, address, at, absence))

    async def _replace(self, slot: int, address: str, at: float, absence: float) -> None:
        await self._note_losses(address, at)
        await asyncio.sleep(at + absence - time.time())
        self._fleet.start(slot)

    async def _supervise(self) -> None:
        """Do what whoever runs workers does: start one again that could not go on."""
        while True:
            self.damage.exits += self._fleet.revive()
            await asyncio.sleep(_LOOK_SECONDS)

    async def _note_losses(self, address: str, at: float) -> None:
        def work(connection: Connection) -> list[Loss]:
            rows = all_of(
                connection,
                "SELECT t.turn_id, t.epoch FROM turns t JOIN workers w "
                "ON w.worker_id = t.worker_id WHERE t.state = 'running' AND w.address = :address",
                address=address,
            )
            return [Loss(row["turn_id"], row["epoch"], at) for row in rows]

        try:
            self.damage.losses += await self._database.run(work)
        except SQLAlchemyError:
            # The database is away as well; how long this take-over lasts is not measured.
            return

    async def _pause(self) -> None:
        dice, weather = self._dice("pauses"), self._weather
        while True:
            await asyncio.sleep(dice.uniform(0.5, 1.5) * weather.pause_seconds)
            awake = self._fleet.awake()
            if awake:
                slot = dice.choice(awake)
                self._fleet.pause(slot)
                self.damage.pauses += 1
                try:
                    await asyncio.sleep(dice.uniform(weather.shortest_pause, weather.longest_pause))
                finally:
                    self._fleet.resume(slot)

    async def _restart(self) -> None:
        dice, modes = self._dice("restarts"), self._weather.restarts
        for number, mode in enumerate(modes):
            share = (number + dice.random()) / (len(modes) + 0.5)
            while self._progress() < share:  # noqa: ASYNC110 - many places move it
                await asyncio.sleep(_LOOK_SECONDS)
            outage = dice.uniform(0.0, _LONGEST_OUTAGE)
            await asyncio.shield(asyncio.to_thread(self._restart_once, mode, outage))
            self.damage.restarts.append(mode)

    def _restart_once(self, mode: str, outage: float) -> None:
        self._server.stop(mode)
        # In a thread of its own, which is never left between the two.
        time.sleep(outage)
        self._server.start()
