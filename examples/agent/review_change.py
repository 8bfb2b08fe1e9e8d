"""A CI job that reviews a change: a diff on stdin, or else that of `git diff`.

    git diff main... | python examples/agent/review_change.py

It prints the findings, and ends with exit code 1 if one of them is serious.
"""

import subprocess
import sys
from typing import Literal

from pydantic import BaseModel

from amplifier import Agent

# What a model answers; in its place write "anthropic:claude-sonnet-5-5", for example.
ANSWER = """{"findings": [
  {"file": "shop.py", "line": 2, "severity": "serious", "text": "The number becomes part of SQL."},
  {"file": "other.py", "line": 9, "severity": "serious", "text": "Not part of the change."}
]}"""


class Finding(BaseModel):
    file: str
    line: int
    severity: Literal["note", "serious"]
    text: str


class Review(BaseModel):
    findings: list[Finding]


agent = Agent(
    {"module": "provider-mock", "config": {"script": [ANSWER]}},
    instructions="Review the diff. Report errors; style is checked elsewhere.",
    output=Review,
)


def read_diff() -> str:
    if not sys.stdin.isatty():
        return sys.stdin.read()
    done = subprocess.run(["git", "diff"], capture_output=True, text=True, check=True)
    return done.stdout


def review(diff: str) -> list[Finding]:
    files = {line[6:].strip() for line in diff.splitlines() if line.startswith("+++ b/")}
    if not files:
        return []
    found = agent.run_sync(diff).output.findings
    # A model may name files that the change does not touch.
    return [each for each in found if each.file in files]


def main() -> int:
    findings = review(read_diff())
    for each in findings:
        print(f"{each.file}:{each.line}: {each.severity}: {each.text}")
    print(len(findings), "finding(s)")
    return 1 if any(each.severity == "serious" for each in findings) else 0


if __name__ == "__main__":
    sys.exit(main())
