"""What is kept of a program's output: its beginning, its end, and the true number of bytes."""

from __future__ import annotations


class Capture:
    """Keeps the first and the last bytes of a stream in bounded memory, however long it is."""

    __slots__ = ("_half", "_head", "_tail", "total")

    def __init__(self, limit: int) -> None:
        """`limit` is the number of bytes kept."""
        self._half = limit // 2
        self._head = bytearray()
        self._tail = bytearray()
        self.total = 0

    def feed(self, data: bytes) -> None:
        """Take the next bytes of the stream."""
        self.total += len(data)
        room = self._half - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        self._tail += data[-self._half :]
        del self._tail[: max(0, len(self._tail) - self._half)]

    @property
    def left_out(self) -> int:
        """How many bytes in the middle are not kept."""
        return self.total - len(self._head) - len(self._tail)

    def text(self) -> str:
        """Return what was kept; where bytes are missing, a line says how many."""
        if not self.left_out:
            return (self._head + self._tail).decode("utf-8", errors="replace")
        head = self._head.decode("utf-8", errors="replace")
        tail = self._tail.decode("utf-8", errors="replace")
        return f"{head}\n[... {self.left_out} of {self.total} bytes left out ...]\n{tail}"
