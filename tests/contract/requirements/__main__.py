"""Print how much of the contract is tested: `python -m contract.requirements`."""

from __future__ import annotations

import sys

from contract.requirements import REQUIREMENTS
from contract.requirements._scan import carriers


def main() -> int:
    """Print the counts per area and in all; tell by the exit status whether anything is missing."""
    carried = {requirement_id for carrier in carriers() for requirement_id in carrier.ids}
    areas: dict[str, list[int]] = {}
    for requirement_id, entry in REQUIREMENTS.items():
        counts = areas.setdefault(requirement_id.split("-")[0], [0, 0, 0, 0])
        counts[0] += 1
        counts[1] += entry.deferred is None and requirement_id in carried
        counts[2] += entry.deferred is not None
        counts[3] += entry.reading is not None
    totals = [sum(counts[column] for counts in areas.values()) for column in range(4)]
    titles = ("requirements", "tested", "deferred", "readings")
    sys.stdout.write(f"{'area':<8}" + "".join(f"{title:>14}" for title in titles) + "\n")
    for name, counts in [*areas.items(), ("all", totals)]:
        sys.stdout.write(f"{name:<8}" + "".join(f"{count:>14}" for count in counts) + "\n")
    missing = totals[0] - totals[1] - totals[2]
    sys.stdout.write(f"{missing} untested\n")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
