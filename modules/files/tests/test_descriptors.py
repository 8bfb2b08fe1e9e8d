"""Searches share their open files, and wait for each other."""

from __future__ import annotations

import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from amplifier_module_files.descriptors import DescriptorPool, pool_of_this_process

if sys.platform != "win32":
    import resource


@pytest.mark.attack("review L5")
def test_threads_never_have_more_than_the_pool_together() -> None:
    pool = DescriptorPool(10)
    lock = threading.Lock()
    in_use = 0
    most = 0

    def work(_: int) -> None:
        nonlocal in_use, most
        for _ in range(50):
            with pool.take(4, lambda: False) as taken:
                assert 1 <= taken <= 4
                with lock:
                    in_use += taken
                    most = max(most, in_use)
                with lock:
                    in_use -= taken

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(work, range(8)))

    assert most <= 10
    with pool.take(100, lambda: False) as all_of_them:
        assert all_of_them == 10


def test_who_is_to_stop_waits_no_longer() -> None:
    pool = DescriptorPool(1)

    with pool.take(1, lambda: False), pool.take(1, lambda: True) as taken:
        assert taken == 0


def test_the_pool_is_a_part_of_what_the_process_may_open(monkeypatch: pytest.MonkeyPatch) -> None:
    if sys.platform == "win32":
        pytest.skip("Windows has no limit of open files to read")
    sizes: list[int] = []
    for soft in (8, 1_024, 1_000_000, resource.RLIM_INFINITY):

        def limits(kind: int, soft: int = soft) -> tuple[int, int]:
            return soft, soft

        monkeypatch.setattr(resource, "getrlimit", limits)
        with pool_of_this_process().take(10_000, lambda: False) as taken:
            sizes.append(taken)

    assert sizes == [4, 256, 800, 800]
