"""What the tests of secrets share: each kind of secret in turn."""

from __future__ import annotations

import pytest

from end_to_end.secret_examples import EXAMPLES, hidden_part


@pytest.fixture(params=EXAMPLES)
def planted(request: pytest.FixtureRequest) -> tuple[str, str, str]:
    """A kind of secret, an example of it, and the part of it that must be gone."""
    kind: str = request.param
    return kind.partition(",")[0], EXAMPLES[kind], hidden_part(kind)
